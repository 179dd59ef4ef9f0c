"""Layers against themselves, asked of a scripted runner: a fake whose layers vary call by call, as told."""

from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

from consistency.metrics import stats_from_arrays
from consistency.noise import floor_of
from consistency.records import Floor
from engine.contract.errors import RunnerError
from engine.contract.request import GoldenTensor, ModelFile, Request
from engine.contract.result import Effective, LayerRecord, PassRecord, RawStats, Result, RunnerInfo
from engine.digest import file_sha256, tensor_digest
from engine.models.golden import golden_trace
from farm.choosing import Budget
from farm.evidence import layer_runs, observed_layers, reference_layers
from farm.layersagain import LayersAgain
from farm.selffirst import MORE, ON_ONE
from tests.farm.test_isolation import model


@dataclass
class ScriptedCall:
    """A fake runner: ``offsets`` gives what a layer is off by, one number a call; its outputs are always the same."""

    trace: object
    offsets: dict[str, list[float]]
    threads: int = 1
    measures: bool = True
    refuses_one: bool = False
    on_one: float = 0.0
    time_for: int = 99
    asked: list[Request] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.agent = SimpleNamespace(send_blobs=lambda blobs, guard: self.sent.extend(blob.sha256 for blob in blobs))
        self.guard = None

    def has_time_for(self, what):
        self.time_for -= 1
        return self.time_for >= 0

    def call(self, request):
        if request.threads == 1 and self.threads > 1 and self.refuses_one:
            raise RunnerError("threads is 1; this engine wants two")
        number = len(self.asked)
        self.asked.append(request)
        one = request.threads == 1 and self.threads > 1
        self.values = {}
        records = [self._record(layer, number, request, one) for layer in self.trace.layers]
        info, effective = RunnerInfo("fake", "1", "", 1), Effective("cpu", "fp32", request.threads, None, "x")
        passes = tuple(PassRecord(kind, 0, {"y": "0" * 32}, 1) for kind in request.passes)
        return Result("job", 1, info, effective, passes, (), tuple(records), 0)

    def _record(self, layer, number, request, one):
        script = self.offsets.get(layer.id, [0.0])
        offset = self.on_one if one else script[min(number, len(script) - 1)]
        golden = self.trace.tensor(layer)
        got = golden + np.float32(offset)
        record = LayerRecord(layer.id, layer.op, layer.dtype, layer.shape, tensor_digest(got))
        self.values[layer.id] = got.tobytes()
        if self.measures and layer.id in request.golden:
            record = replace(record, stats=RawStats(**asdict(stats_from_arrays(got, golden, 0.1))))
        return replace(record, tensor=layer.id) if layer.id in request.keep else record

    def layer_bytes(self, path, digest, limit):
        self.fetched.append(path)
        return self.values[path]


@pytest.fixture
def look(tmp_path):
    """``look(offsets, ...)``: the call, and what ``layers_again`` says after ``anyway`` calls made before."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model(4).SerializeToString())
    trace = golden_trace(path, {"x": np.linspace(1, 2, 64, dtype=np.float32)}, tmp_path)

    def run(offsets, *, anyway=2, left=1e9, sound=True, outputs_vary=False, there=False, **changes):
        call = ScriptedCall(trace, offsets, **changes)
        request = Request("job", 1, ModelFile("m", "0" * 64, "onnx"), (), threads=call.threads)
        shown = [call.call(request) for _ in range(anyway)]
        call.asked.clear()
        script = {name: values[anyway:] or values[-1:] for name, values in offsets.items()}
        call.offsets = script

        def golden_file(layer):
            blob = SimpleNamespace(sha256=file_sha256(trace.tensor_path(layer)), size=layer.nbytes)
            return GoldenTensor(blob.sha256, layer.dtype, layer.shape, 0.1), blob

        def measured(data, layer):
            got = np.frombuffer(data, np.float32).reshape(layer.shape)
            return asdict(stats_from_arrays(got, trace.tensor(layer), 0.1))

        sent = {golden_file(layer)[1].sha256 for layer in trace.layers} if there else set()
        budget = Budget(left)
        again = LayersAgain(call, request, trace, golden_file, measured, budget, sent, shown)
        told = again.look(shown[0].layers, lambda: sound, outputs_vary=outputs_vary)
        answer = {"layers": [asdict(layer) for layer in shown[0].layers], **told}
        runs, count = layer_runs(answer, observed_layers(answer))
        references = {layer.id: layer for layer in reference_layers(trace, None)}
        return SimpleNamespace(
            call=call,
            runs=runs,
            count=count,
            left=budget.left,
            floors={name: floor_of(references[name], found) for name, found in runs.items()},
        )

    return run


def test_layers_that_were_the_same_twice_cost_no_call(look):
    found = look({"l1": [0.5]})
    assert (found.call.asked, found.call.sent, found.runs, found.count) == ([], [], {}, 2)


def test_one_capture_of_a_reference_s_bits_costs_no_call(look):
    found = look({}, anyway=1)
    assert (found.call.asked, found.runs, found.count) == ([], {}, 1)


def test_an_inner_layer_that_varies_is_measured_though_no_output_does(look):
    found = look({"l1": [0.5, 0.25, 0.75, 0.125, 0.375], "l2": [0.5, 0.5]})
    assert list(found.runs) == ["l1"]
    assert len(found.call.asked) == MORE
    assert all(
        (asked.passes, asked.iterations, asked.capture) == (("instrumented",), 1, ()) for asked in found.call.asked
    )
    assert all(set(asked.golden) == {"l1"} for asked in found.call.asked)
    assert (found.count, len(set(found.runs["l1"].digests))) == (5, 5)
    assert found.floors["l1"] == Floor(pytest.approx(0.625), pytest.approx(0.625)), "by the tensors that came back"
    assert found.call.fetched == ["l1"] * MORE


def test_while_time_is_short_the_runs_there_are_give_the_floor(look):
    found = look({"l1": [0.5, 0.25, 0.75, 0.125]}, time_for=2)
    assert (len(found.call.asked), found.count) == (2, 4)
    assert found.floors["l1"] == Floor(pytest.approx(0.625), pytest.approx(0.625))
    none = look({"l1": [0.5, 0.25, 0.75]}, time_for=0, threads=2)
    assert (none.call.asked, none.count, list(none.runs)) == ([], 2, ["l1"])


def test_without_bytes_for_tensors_statistics_are_the_floor(look):
    found = look({"l1": [0.5, 0.25, 0.75, 0.125, 0.375]}, left=300)
    assert (found.call.fetched, found.left) == ([], 44)
    assert found.runs["l1"].width is None
    assert found.floors["l1"].least == pytest.approx(0.625)
    assert found.floors["l1"].most == pytest.approx(1.125), "the two that are furthest from the golden"


def test_what_the_device_has_travels_for_nothing_and_else_stays_within_the_bound(look):
    script = {"l1": [0.5, 0.25, 0.75, 0.125]}
    nothing = look(script, left=0)
    assert (nothing.call.sent, nothing.floors, nothing.left) == ([], {"l1": None}, 0)
    found = look(script, left=0, there=True)
    assert (found.call.sent, found.left) == ([], 0)
    assert found.floors["l1"].least > 0


def test_wrong_outputs_are_left_to_another_job(look):
    found = look({"l1": [0.5, 0.25]}, sound=False)
    assert (found.call.asked, len(found.runs["l1"].digests)) == ([], 2)


def test_outputs_that_vary_have_their_layers_looked_at(look):
    found = look({"l2": [0.0, 0.25, 0.0, 0.5]}, anyway=1, outputs_vary=True)
    assert len(found.call.asked) == MORE
    assert list(found.runs) == ["l2"]
    assert found.floors["l2"] is not None
    steady = look({}, anyway=1, outputs_vary=True)
    assert (len(steady.call.asked), steady.runs, steady.count) == (MORE, {}, 1 + MORE)


def test_one_thread_is_tried_where_there_were_several(look):
    found = look({"l1": [0.5, 0.25, 0.75]}, threads=4, on_one=0.125)
    assert [asked.threads for asked in found.call.asked] == [4] * MORE + [1] * ON_ONE
    assert len(found.runs["l1"].on_one) == ON_ONE
    assert len(set(found.runs["l1"].on_one)) == 1
    assert found.floors["l1"].most < 1, "the other number of threads is no noise"
    refused = look({"l1": [0.5, 0.25, 0.75]}, threads=4, refuses_one=True)
    assert refused.runs["l1"].on_one == ()


def test_a_runner_without_statistics_is_measured_by_its_tensors(look):
    found = look({"l1": [0.5, 0.25, 0.75, 0.125, 0.375]}, measures=False)
    measured = [layer for layer in found.runs["l1"].shown.values() if layer.stats is not None]
    assert len(measured) == MORE
    assert {round(layer.stats.max_abs, 3) for layer in measured} == {0.75, 0.125, 0.375}
