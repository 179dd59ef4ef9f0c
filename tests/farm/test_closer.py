"""A closer look at a failing case, asked of a scripted runner: a fake that answers what its model would."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

from engine.contract.errors import RunnerError
from engine.contract.request import GoldenTensor, ModelFile, Request
from engine.contract.result import Effective, LayerRecord, PassRecord, RawStats, Result, RunnerInfo
from engine.digest import file_sha256, tensor_digest
from engine.models.golden import golden_trace
from farm.choosing import Budget
from farm.closer import Closer
from tests.farm.test_isolation import model

BAD = RawStats(64, 64, 64, 9.0, 0, 9.0, 0.0, 576.0, 5184.0, 1e6, 1e6, 1e6, 0)


@dataclass
class ScriptedCall:
    """A fake runner: layers are bad in the whole model, good alone; ``fault`` is raised instead when set."""

    trace: object
    level: int
    fault: Exception | None = None
    time: bool = True
    asked: list[Request] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.job = SimpleNamespace(profile="fp32", inputs=(), bundle=SimpleNamespace(level=self.level))
        self.agent = SimpleNamespace(send_blobs=lambda blobs, guard: self.sent.extend(blob.sha256 for blob in blobs))
        self.guard = None
        self.left_out = []

    def has_time_for(self, what):
        self.left_out += [] if self.time else [what]
        return self.time

    def call(self, request):
        self.asked.append(request)
        if self.fault:
            raise self.fault
        by_id = self.trace.by_id()
        return answer([record(by_id[name], isolated=True) for name in request.isolated])


def record(layer, **changes):
    return replace(LayerRecord(layer.id, layer.op, layer.dtype, layer.shape, layer.digest), **changes)


def answer(layers):
    info, effective = RunnerInfo("fake", "1", "", 2), Effective("cpu", "fp32", 1, None, "x")
    passes = tuple(PassRecord(kind, 0, {"y": "0" * 32}, 1) for kind in ("plain", "instrumented"))
    return Result("job", 1, info, effective, passes, (), tuple(layers), 0)


@pytest.fixture
def look(tmp_path):
    """``look(bad, level, fault)``: the closer look at a case whose layers ``bad`` are beyond their bounds."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model(4).SerializeToString())
    trace = golden_trace(path, {"x": np.arange(64, dtype=np.float32)}, tmp_path)

    def run(bad, level=2, fault=None, **changes):
        call = ScriptedCall(trace, level, fault, **changes)
        other = tensor_digest(np.float32([1]))
        layers = tuple(
            record(layer, digest=other, stats=BAD) if layer.id in bad else record(layer) for layer in trace.layers
        )
        request = Request("job", 1, ModelFile("m", "0" * 64, "onnx"), ())
        files = {layer.id: trace.tensor_path(layer) for layer in trace.layers}

        def golden_file(layer):
            blob = SimpleNamespace(sha256=file_sha256(files[layer.id]), size=layer.nbytes)
            return GoldenTensor(blob.sha256, layer.dtype, layer.shape, 0.1), blob

        return call, *Closer(call, trace, None, request, golden_file, Budget(1e9)).look(answer(layers), layers, [])

    return run


def test_a_case_within_its_bounds_costs_no_call(look):
    call, layers, more = look(())
    assert (call.asked, call.sent) == ([], [])
    assert more == {"alone": [], "by_canonical": [], "looked": None, "trouble": ""}
    assert all(layer.stats is None for layer in layers)


def test_a_layer_behind_the_failing_one_runs_alone_on_what_it_reads(look):
    call, _, more = look(("l1", "l2"))
    (asked,) = call.asked
    assert asked.passes == ()
    assert {name: list(inputs) for name, inputs in asked.isolated.items()} == {"l2": ["l1"]}
    assert set(asked.golden) == {"l2"}
    assert [entry["id"] for entry in more["alone"]] == ["l2"]
    assert len(call.sent) == len(set(call.sent)) > 0


def test_a_layer_that_read_the_goldens_bits_is_not_run_again(look):
    call, _, more = look(("l2",))
    assert (call.asked, call.sent, more["alone"]) == ([], [], [])


def test_an_engine_without_layers_alone_is_not_asked(look):
    call, _, more = look(("l1", "l2"), level=1)
    assert (call.asked, more["alone"]) == ([], [])


def test_without_time_no_call_is_begun_and_what_was_measured_stays(look):
    call, layers, more = look(("l1", "l2"), time=False)
    assert (call.asked, call.left_out, more["alone"]) == ([], ["layers alone"], [])
    assert next(layer for layer in layers if layer.id == "l2").stats == BAD


def test_a_runner_that_cannot_do_it_leaves_what_was_measured_and_says_why(look):
    _, layers, more = look(("l1", "l2"), fault=RunnerError("refused: isolated"))
    assert next(layer for layer in layers if layer.id == "l2").stats == BAD
    assert (more["alone"], more["trouble"]) == ([], "refused: isolated")


def shifted(trace, layer):
    """A canonical trace like the golden, except that ``layer`` is far from it."""
    stats = replace(BAD, max_abs=9.0)
    layers = tuple(
        replace(one, digest=one.digest if one.id != layer else trace.layers[-1].digest, stats=stats)
        for one in trace.layers
    )
    return replace(trace, kind="canonical", layers=layers)


@pytest.mark.parametrize(
    ("wrong_in_canonical", "bits", "asked"),
    [("l2", "its own", ["l2"]), ("l2", "canonical's", []), ("l1", "its own", [])],
)
def test_where_canonical_fails_too_the_device_is_measured_against_it(tmp_path, wrong_in_canonical, bits, asked):
    path = tmp_path / "m.onnx"
    path.write_bytes(model(4).SerializeToString())
    golden = golden_trace(path, {"x": np.arange(64, dtype=np.float32)}, tmp_path)
    canonical = shifted(golden, wrong_in_canonical)
    call = ScriptedCall(golden, 1)
    call.call = lambda request: (
        call.asked.append(request)
        or answer([record(golden.by_id()[name], digest="f" * 32, stats=BAD) for name in request.capture])
    )
    digest = "f" * 32 if bits == "its own" else canonical.by_id()["l2"].digest
    layers = tuple(record(one, digest=digest, stats=BAD) if one.id == "l2" else record(one) for one in golden.layers)

    def golden_file(layer):
        trace_path = golden.tensor_path(layer)
        return GoldenTensor("x", layer.dtype, layer.shape, 0.1), SimpleNamespace(sha256=file_sha256(trace_path), size=1)

    plain = (PassRecord("plain", 0, {"y": "0" * 32}, 1), PassRecord("instrumented", 0, {"y": "0" * 32}, 1))
    result = replace(answer(layers), passes=plain)
    asked_first = Request("job", 1, ModelFile("m", "0" * 64, "onnx"), ())
    closer = Closer(call, golden, canonical, asked_first, golden_file, Budget(1e9))
    _, more = closer.look(result, layers, [])
    assert more["trouble"] == ""
    assert [entry["id"] for entry in more["by_canonical"]] == asked
    assert [list(request.golden) for request in call.asked] == ([asked] if asked else [])
    if asked:
        sent = file_sha256(canonical.tensor_path(canonical.by_id()["l2"]))
        assert call.sent == [sent], "canonical's tensor travels, not the golden's"
        assert call.asked[0].golden["l2"].path.endswith(sent)
