"""When the evaluator is asked, and what becomes of a case when it is late or breaks down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from ci.second import SecondReferee
from consistency.records import CaseVerdict, Witnesses
from consistency.verdict import judge_case
from engine.contract.errors import ModelError
from engine.contract.trace import Trace
from engine.models.evaluated import Evaluation
from engine.models.golden import golden_trace
from engine.runtimes.onnx_reference import OUT_OF_TIME
from farm.evidence import reference_layers
from tests.consistency.builders import chain, evidence_of

X = np.linspace(1, 2, 16, dtype=np.float32)


def traced(folder: Path, op: str) -> Trace:
    """x → Exp → ``op`` → l1, in ONNX Runtime."""
    nodes = [helper.make_node("Exp", ["x"], ["l0"]), helper.make_node(op, ["l0"], ["l1"])]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [16])] for name in ("x", "l1")]
    path = folder / f"{op}.onnx"
    made = helper.make_model(helper.make_graph(nodes, "two", *ends), opset_imports=[helper.make_opsetid("", 15)])
    made.ir_version = 8
    path.write_bytes(made.SerializeToString())
    return golden_trace(path, {"x": X}, folder)


@dataclass
class Evaluator:
    """A scripted evaluator: a fake that answers with ``found`` or raises it, and counts."""

    found: Any
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, path: Path, sha256: str, inputs: Any, wanted: Any, folder: Path, seconds: float) -> Evaluation:
        self.asked.append(tuple(wanted))
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def scene(tmp_path: Path) -> Any:
    """Golden with Sqrt, canonical and device with Neg: canonical fails where the device does."""
    golden, canonical = traced(tmp_path, "Sqrt"), traced(tmp_path, "Neg")
    a, b = (chain(*(trace.tensor(layer) for layer in trace.layers)) for trace in (golden, canonical))
    verdict = judge_case(evidence_of(b, a, canonical=b))
    with_stats = evidence_of(b, a, canonical=b).reference
    prepared = SimpleNamespace(case=SimpleNamespace(id="c"), inputs={}, onnx=tmp_path / "Sqrt.onnx", golden=golden)
    assert {layer.id for layer in reference_layers(golden, canonical)} == {"l0", "l1"}
    return prepared, canonical, verdict, with_stats


def heard(referee: SecondReferee, scene: tuple[Any, Trace, CaseVerdict, Any]) -> Witnesses | None:
    prepared, canonical, verdict, reference = scene
    return referee.witnesses(prepared, canonical, verdict, reference, {"outputs": []})


def test_only_the_layers_in_question_are_asked_for(scene: Any) -> None:
    evaluator = Evaluator(Evaluation(replace(scene[1], kind="evaluator", producer="the evaluator"), {}))
    told = heard(SecondReferee(evaluate=evaluator), scene)
    assert evaluator.asked == [("l1",)]
    assert told is not None
    assert (told.name, list(told.canonical)) == ("the evaluator", ["l1"])
    assert told.evaluator["l1"].canonical_digest == told.evaluator["l1"].digest
    assert told.evaluator_seen["l1"].stats is not None
    assert told.evaluator_seen["l1"].stats.max_abs > 1


def test_a_case_without_a_failure_asks_nobody(scene: Any) -> None:
    evaluator = Evaluator(RuntimeError("not to be asked"))
    prepared, canonical, verdict, reference = scene
    healthy = replace(verdict, layers=verdict.layers[:1], outputs=())
    assert heard(SecondReferee(evaluate=evaluator), (prepared, canonical, healthy, reference)) is None


def test_a_referee_that_breaks_down_is_asked_once_and_named(scene: Any) -> None:
    evaluator = Evaluator(ModelError("it ended early"))
    referee = SecondReferee(evaluate=evaluator)
    for _ in range(2):
        told = heard(referee, scene)
        assert told is not None
        assert told.lacking == {"l1": "it ended early"}
    assert len(evaluator.asked) == 1


def test_a_referee_that_is_late_is_not_waited_for_on_every_device(scene: Any) -> None:
    late = Evaluation(replace(scene[1], layers=()), {"l1": f"{OUT_OF_TIME} (60 s)"})
    evaluator = Evaluator(late)
    referee = SecondReferee(evaluate=evaluator)
    for _ in range(2):
        told = heard(referee, scene)
        assert told is not None
        assert told.lacking == {"l1": f"{OUT_OF_TIME} (60 s)"}
    assert len(evaluator.asked) == 1
