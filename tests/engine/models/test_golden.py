import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import helper

from consistency.metrics import scale_of
from engine.contract.errors import ModelError, UnsupportedError
from engine.contract.trace import Trace
from engine.digest import tensor_digest
from engine.models.golden import count_nonfinite, golden_trace, summarise
from engine.models.tasks import check_tasks

LAYERS = {"orientation-0": 112, "vad-speech": 29}


def test_a_small_model_is_traced_in_order(
    small_path: Path, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    trace = golden_trace(small_path, small_inputs, tmp_path / "references")
    assert [layer.id for layer in trace.layers] == ["conv", "relu", "flat", "matmul", "y"]
    assert [layer.op for layer in trace.layers] == ["Conv", "Relu", "Reshape", "MatMul", "Add"]
    assert [layer.inputs for layer in trace.layers] == [("x",), ("conv",), ("relu",), ("flat",), ("matmul",)]
    assert trace.constant == ("shape", "batch", "flat_shape")
    assert [layer.id for layer in trace.finals] == ["y"]
    assert trace.kind == "golden"
    assert "optimisation off" in trace.producer
    relu = trace.by_id()["relu"]
    np.testing.assert_array_equal(trace.tensor(relu), np.maximum(trace.tensor(trace.by_id()["conv"]), 0))
    assert all(layer.digest == tensor_digest(trace.tensor(layer)) for layer in trace.layers)
    assert Trace.load(trace.folder) == trace


def test_a_kept_trace_is_read_and_a_damaged_one_made_again(
    small_path: Path, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    first = golden_trace(small_path, small_inputs, tmp_path / "references")
    written = (first.folder / "trace.json").stat().st_mtime_ns
    assert golden_trace(small_path, small_inputs, tmp_path / "references") == first
    assert (first.folder / "trace.json").stat().st_mtime_ns == written
    first.tensor_path(first.layers[0]).write_bytes(b"cut")
    assert golden_trace(small_path, small_inputs, tmp_path / "references") == first
    assert first.tensor(first.layers[0]).shape == (1, 3, 4, 4)
    (first.folder / "trace.json").write_text("{")
    assert golden_trace(small_path, small_inputs, tmp_path / "references") == first


def test_other_inputs_have_a_trace_of_their_own(
    small_path: Path, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    first = golden_trace(small_path, small_inputs, tmp_path)
    other = golden_trace(small_path, {"x": small_inputs["x"] * 2}, tmp_path)
    batch = golden_trace(small_path, {"x": np.repeat(small_inputs["x"], 2, axis=0)}, tmp_path)
    assert len({first.folder, other.folder, batch.folder}) == 3
    assert batch.by_id()["flat"].shape == (2, 48)


def test_a_layer_that_feeds_no_output_is_not_expected(
    small_model: onnx.ModelProto, small_path: Path, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    small_model.graph.node.insert(1, helper.make_node("Neg", ["conv"], ["nowhere"]))
    small_path.write_bytes(small_model.SerializeToString())
    trace = golden_trace(small_path, small_inputs, tmp_path)
    assert [layer.id for layer in trace.layers] == ["conv", "relu", "flat", "matmul", "y"]
    assert "nowhere" in trace.constant


def test_nonfinite_values_are_counted_not_averaged(small_path: Path, tmp_path: Path) -> None:
    x = np.ones((1, 2, 4, 4), dtype=np.float32)
    x[0, 0, 0, 0] = np.nan
    trace = golden_trace(small_path, {"x": x}, tmp_path)
    conv = trace.by_id()["conv"]
    assert conv.nonfinite.nan == int(np.isnan(trace.tensor(conv)).sum()) > 0
    assert np.isfinite(conv.summary.rms)
    assert conv.summary.rms > 0
    json.loads((trace.folder / "trace.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize("case_id", list(LAYERS))
def test_the_smoke_models_are_traced_whole(smoke, case_id: str, tmp_path: Path) -> None:
    trace = golden_trace(smoke.model(case_id), smoke.inputs(case_id), tmp_path)
    model = onnx.load(smoke.model(case_id), load_external_data=False)
    outputs = [name for node in model.graph.node for name in node.output if name]
    assert len(trace.layers) == LAYERS[case_id]
    assert sorted(outputs) == sorted([*trace.constant, *(layer.id for layer in trace.layers)])
    assert {layer.id for layer in trace.finals} == {value.name for value in model.graph.output}
    assert not any(layer.nonfinite.total for layer in trace.layers)


def test_the_golden_does_every_task_of_the_smoke_suite(smoke, tmp_path: Path) -> None:
    for case in smoke.suite.cases:
        trace = golden_trace(smoke.model(case.id), smoke.inputs(case.id), tmp_path)
        outputs = {layer.id: trace.tensor(layer) for layer in trace.finals}
        assert [result for result in check_tasks(case.checks(), outputs) if not result.ok] == []
        if case.model == "orientation":
            best = np.sort(outputs["fetch_name_0"].reshape(-1))
            assert best[-1] - best[-2] > 0.8


def hostile(name: str, model: onnx.ModelProto) -> bytes:
    if name == "truncated":
        return model.SerializeToString()[:-40]
    if name == "external":
        weights = model.graph.initializer[0]
        weights.ClearField("raw_data")
        weights.data_location = onnx.TensorProto.EXTERNAL
        weights.external_data.add(key="location", value="../../etc/passwd")
    if name == "missing input":
        model.graph.node[1].input[0] = "nowhere"
    if name == "cycle":
        model.graph.node[0].input[0] = "relu"
    if name == "unknown op":
        model.graph.node[1].op_type = "Frobnicate"
    if name == "lying weights":
        model.graph.initializer[0].dims[0] = 5_000_000
    if name == "no output":
        del model.graph.output[:]
    return model.SerializeToString()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("truncated", ""),
        ("external", "tensor 'w' lies in another file"),
        ("missing input", "not a valid ONNX model"),
        ("cycle", "not a valid ONNX model"),
        ("unknown op", "Frobnicate"),
        ("lying weights", ""),
        ("no output", "no output depends on the inputs"),
    ],
)
def test_a_hostile_model_is_refused_in_words(
    name: str, words: str, small_model: onnx.ModelProto, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    path = tmp_path / "hostile.onnx"
    path.write_bytes(hostile(name, small_model))
    with pytest.raises(ModelError) as caught:
        golden_trace(path, small_inputs, tmp_path / "references")
    assert words in caught.value.message
    assert caught.value.hint
    assert not list(tmp_path.glob("references/*/trace.json"))


def test_nonsense_empty_and_absent_files_are_refused(small_inputs: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    for content in (b"", b"\xff" * 100, b"PK\x03\x04 not a model"):
        path.write_bytes(content)
        with pytest.raises(ModelError):
            golden_trace(path, small_inputs, tmp_path)


def test_control_flow_and_random_nodes_are_unsupported(
    small_model: onnx.ModelProto, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    path = tmp_path / "random.onnx"
    small_model.graph.node[1].CopyFrom(helper.make_node("RandomNormalLike", ["conv"], ["relu"], name="dice"))
    path.write_bytes(small_model.SerializeToString())
    with pytest.raises(UnsupportedError, match="'dice' is random"):
        golden_trace(path, small_inputs, tmp_path)
    body = helper.make_graph([], "body", [], [])
    small_model.graph.node[1].CopyFrom(helper.make_node("If", ["conv"], ["relu"], name="fork", then_branch=body))
    path.write_bytes(small_model.SerializeToString())
    with pytest.raises(UnsupportedError, match="'fork' holds a sub-graph"):
        golden_trace(path, small_inputs, tmp_path)


def test_wrong_inputs_are_named(small_path: Path, small_inputs: dict[str, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="input 'x' is not given"):
        golden_trace(small_path, {}, tmp_path)
    with pytest.raises(ModelError, match="cannot run the model"):
        golden_trace(small_path, {"x": small_inputs["x"][:, :1]}, tmp_path)


@given(arrays.arrays(np.float32, st.integers(0, 3000), elements=st.floats(width=32)))
def test_a_summary_is_finite_and_ordered(array: np.ndarray) -> None:
    summary, nonfinite = summarise(array), count_nonfinite(array)
    assert nonfinite.total == array.size - np.count_nonzero(np.isfinite(array))
    assert 0 <= summary.rms <= summary.max_abs * (1 + 1e-12)
    assert 0 <= summary.p999 <= summary.max_abs
    finite = np.sort(np.abs(array[np.isfinite(array)].astype(np.float64)))
    if finite.size:
        assert summary.max_abs == finite[-1]
        if not (array[np.isfinite(array)] <= -1e3).any():  # nothing that could be a mask
            assert summary.p999 == finite[int(np.ceil(0.999 * finite.size)) - 1]


def test_integers_are_summarised_without_wrapping() -> None:
    summary = summarise(np.array([-128, 3], dtype=np.int8))
    assert summary.max_abs == 128.0
    assert summary.rms == pytest.approx(np.sqrt((128**2 + 9) / 2))


SCORES = np.random.default_rng(3).normal(size=1000)


@pytest.mark.parametrize("mask", [-1e4, -1e9, -3.4e38])
def test_a_mask_is_left_out_of_the_scale_as_it_is_between_files(mask: float) -> None:
    array = np.where(np.arange(1000) % 3 == 0, mask, SCORES).astype(np.float32)
    summary = summarise(array)
    assert 0.5 < summary.rms < 2.0
    assert summary.p999 < 5.0
    assert summary.max_abs == abs(float(np.float32(mask)))


@given(
    arrays.arrays(
        np.float32,
        st.integers(0, 80),
        elements=st.one_of(
            st.floats(-10, 10, width=32),
            st.sampled_from([-1e4, -1e9, -4e9, 1e4, 0.0, np.nan, -np.inf]).map(lambda value: float(np.float32(value))),
        ),
    )
)
def test_a_summary_is_the_scale_that_files_are_judged_by(array: np.ndarray) -> None:
    summary, scale = summarise(array), scale_of(array)
    assert (summary.p999, summary.max_abs) == (scale.p999, scale.max_abs)
    assert summary.rms == pytest.approx(scale.rms, rel=1e-12)
