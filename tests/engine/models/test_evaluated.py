from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.digest import file_sha256
from engine.models import evaluated
from engine.models.evaluated import Evaluation, evaluated_trace
from engine.models.golden import golden_trace
from engine.runtimes import onnx_reference

X = {"x": np.random.default_rng(5).standard_normal((1, 2, 4, 4)).astype(np.float32)}


@pytest.fixture
def path(small_model: onnx.ModelProto, tmp_path: Path) -> Path:
    made = tmp_path / "m.onnx"
    made.write_bytes(small_model.SerializeToString())
    return made


def ask(path: Path, *wanted: str, seconds: float = 120.0) -> Evaluation:
    return evaluated_trace(path, file_sha256(path), X, wanted, path.parent, seconds)


def test_it_agrees_with_the_golden_within_rounding(path: Path) -> None:
    golden = golden_trace(path, X, path.parent)
    found = ask(path, *(layer.id for layer in golden.layers))
    assert found.trace.kind == "evaluator"
    assert found.lacking == {}
    assert [(layer.id, layer.op) for layer in found.trace.layers] == [(one.id, one.op) for one in golden.layers]
    for layer, other in zip(found.trace.layers, golden.layers, strict=True):
        assert np.allclose(found.trace.tensor(layer), golden.tensor(other), rtol=1e-5, atol=1e-6)


def test_only_what_is_asked_is_kept_and_nothing_is_computed_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [layer.id for layer in ask(path, "relu").trace.layers] == ["relu"]
    asked: list[list[str]] = []
    real = onnx_reference.run

    def watched(model: bytes, inputs: dict, wanted: list[str], seconds: float) -> onnx_reference.Evaluated:
        asked.append(list(wanted))
        return real(model, inputs, wanted, seconds)

    monkeypatch.setattr(evaluated.runtime, "run", watched)
    assert sorted(layer.id for layer in ask(path, "relu", "y").trace.layers) == ["relu", "y"]
    ask(path, "y", "relu")
    assert asked == [["y"]]


def test_a_damaged_trace_is_made_again(path: Path) -> None:
    trace = ask(path, "y").trace
    trace.tensor_path(trace.layers[0]).write_bytes(b"short")
    again = ask(path, "y").trace
    assert again.tensor(again.layers[0]).shape == (1, 2)


def test_what_it_cannot_do_is_kept_and_a_lack_of_time_is_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {"relu": "it cannot", "y": f"{onnx_reference.OUT_OF_TIME} (1 s)"}
    monkeypatch.setattr(evaluated.runtime, "run", lambda *_: onnx_reference.Evaluated({}, reasons))
    found = ask(path, "relu", "y")
    assert (found.lacking, found.trace.layers) == (reasons, ())
    assert json.loads((found.trace.folder / "lacking.json").read_text()) == {"relu": "it cannot"}
    monkeypatch.undo()
    assert ask(path, "relu", "y").lacking == {"relu": "it cannot"}
