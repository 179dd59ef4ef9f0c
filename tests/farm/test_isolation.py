"""Which layers run alone: the first deviating one always, the rest within a bound on the bytes that travel."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.digest import file_sha256
from engine.models.golden import golden_trace
from farm.casejob import FileRef, InputRef
from farm.choosing import Budget
from farm.isolation import MAX_LAYERS, Suspects, orders


def model(count: int) -> onnx.ModelProto:
    """x → l0 → l1 → … , each the negative of the one before, and y = last + x."""
    nodes = [helper.make_node("Neg", ["x" if i == 0 else f"l{i - 1}"], [f"l{i}"]) for i in range(count)]
    nodes.append(helper.make_node("Add", [f"l{count - 1}", "x"], ["y"]))
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [64])] for name in "xy"]
    graph = helper.make_graph(nodes, "negatives", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def case(tmp_path):
    """``case(count)``: a golden trace of ``count`` + 1 layers, no two alike, and the input as jobs have it."""

    def make(count):
        path, given = tmp_path / "m.onnx", tmp_path / "x.bin"
        path.write_bytes(model(count).SerializeToString())
        values = np.arange(64, dtype=np.float32)
        given.write_bytes(values.tobytes())
        file = FileRef(path=str(given), sha256=file_sha256(given), size=256)
        golden = golden_trace(path, {"x": values}, tmp_path / "golden")
        return golden, (InputRef(name="x", dtype="float32", shape=(64,), file=file),)

    return make


def blob_of(golden, name):
    return file_sha256(golden.tensor_path(golden.by_id()[name]))


def asked(golden, inputs, names, there=(), left=0.0, *, must=None, measured=True):
    return orders(golden, inputs, Suspects(tuple(names), must), there, Budget(left), measured=measured)


def test_the_layer_that_must_run_is_run_whatever_it_costs(case):
    golden, inputs = case(3)
    made = asked(golden, inputs, ("l1", "l2"), must="l1")
    assert list(made.isolated) == ["l1", "l2"]  # what l2 reads and gives is there once l1 was sent: they alternate
    assert set(made.isolated["l1"]) == {"l0"}
    assert {blob_of(golden, "l0"), blob_of(golden, "l1")} == set(made.blobs)
    assert asked(golden, inputs, ("l1", "l2")).isolated == {}


def test_a_layer_over_the_budget_is_left_out_and_one_that_costs_nothing_is_not(case):
    golden, inputs = case(3)
    made = asked(golden, inputs, ("l1", "y"), left=512.0)
    assert list(made.isolated) == ["l1"]
    there = [blob_of(golden, name) for name in ("l2", "y")] + [inputs[0].file.sha256]
    made = asked(golden, inputs, ("l1", "y"), there, left=512.0)
    assert list(made.isolated) == ["l1", "y"]
    assert set(made.isolated["y"]) == {"l2", "x"}


def test_where_bits_decide_only_what_is_read_travels(case):
    golden, inputs = case(3)
    made = asked(golden, inputs, ("l1",), left=256.0, measured=False)
    assert set(made.blobs) == {blob_of(golden, "l0")}


def test_what_the_device_has_does_not_travel_again(case):
    golden, inputs = case(3)
    there = {blob_of(golden, name) for name in ("l0", "l1")}
    made = asked(golden, inputs, ("l1",), there)
    assert list(made.isolated) == ["l1"]
    assert made.blobs == {}
    assert made.isolated["l1"]["l0"].path == f"../../blobs/{blob_of(golden, 'l0')}"


def test_the_number_of_layers_is_bounded(case):
    golden, inputs = case(MAX_LAYERS + 10)
    names = [layer.id for layer in golden.layers]
    there = {blob_of(golden, name) for name in names} | {inputs[0].file.sha256}
    assert len(asked(golden, inputs, names, there).isolated) == MAX_LAYERS


def test_an_input_nobody_knows_leaves_the_layer_out(case):
    golden, _ = case(2)
    assert asked(golden, (), ("l0",), must="l0").isolated == {}
