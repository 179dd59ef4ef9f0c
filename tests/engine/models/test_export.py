import json
from dataclasses import asdict

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.contract.errors import ModelError, UnsupportedError
from engine.models.export import export_refrt
from engine.models.golden import golden_trace


def model_of(nodes, inputs, outputs, constants=None, opset=17) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def test_the_small_model(small_model, tmp_path):
    record = export_refrt(small_model, {"x": (1, 2, 4, 4)}, tmp_path / "m.refrt")
    assert [layer.id for layer in record.layers] == ["conv", "relu", "flat", "matmul", "y"]
    assert [layer.op for layer in record.layers] == ["Conv", "Relu", "Reshape", "MatMul", "Add"]
    assert record.constants == ("shape", "batch", "flat_shape")
    assert record.fused == {"conv": ("relu",), "matmul": ("y",)}
    assert [(end.name, end.dtype, end.shape) for end in record.outputs] == [("y", "float32", (1, 2))]
    json.dumps(asdict(record), allow_nan=False)


def test_the_bytes_are_the_same_each_time(small_model, tmp_path):
    for name in ("a", "b"):
        export_refrt(small_model, {"x": (1, 2, 4, 4)}, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_model_is_left_alone(small_model, tmp_path):
    before = small_model.SerializeToString()
    export_refrt(small_model, {"x": (1, 2, 4, 4)}, tmp_path / "m.refrt")
    assert small_model.SerializeToString() == before


@pytest.mark.parametrize("model", ["orientation", "vad"])
def test_the_layers_are_those_of_the_golden(smoke, tmp_path, model):
    chosen = next(case.id for case in smoke.suite.cases if case.model == model)
    inputs = smoke.inputs(chosen)
    path = smoke.model(chosen)
    shapes = {name: array.shape for name, array in inputs.items()}
    record = export_refrt(onnx.load(path), shapes, tmp_path / "m.refrt")
    trace = golden_trace(path, inputs, tmp_path / "golden")
    expected = [layer.id for layer in trace.layers if layer.id not in trace.constant]
    assert [layer.id for layer in record.layers] == expected
    assert record.removed == ()


def test_dead_nodes_are_removed_and_named(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Sqrt", ["x"], ["dead"])]
    record = export_refrt(model_of(nodes, {"x": [2]}, ["y"]), {}, tmp_path / "m.refrt")
    assert [layer.id for layer in record.layers] == ["y"]
    assert record.removed == ("dead",)


def test_an_unknown_operator_is_named_with_its_node(tmp_path):
    nodes = [helper.make_node("Erf", ["x"], ["y"], name="strange")]
    with pytest.raises(UnsupportedError, match="refrt has no operator Erf, needed by Erf node 'strange'"):
        export_refrt(model_of(nodes, {"x": [2]}, ["y"]), {}, tmp_path / "m.refrt")
    assert list(tmp_path.iterdir()) == []


def test_a_dead_unknown_operator_does_not_matter(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Erf", ["x"], ["dead"])]
    export_refrt(model_of(nodes, {"x": [2]}, ["y"]), {}, tmp_path / "m.refrt")


def test_other_types_are_refused(tmp_path):
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Relu", ["wide"], ["y"]),
    ]
    with pytest.raises(UnsupportedError, match="Cast"):
        export_refrt(model_of(nodes, {"x": [2]}, ["y"]), {}, tmp_path / "m.refrt")


def test_control_flow_is_refused(tmp_path):
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "b", [], [onnx.ValueInfoProto(name="z")])
    nodes = [helper.make_node("If", ["t"], ["y"], then_branch=branch, else_branch=branch, name="fork")]
    model = model_of(nodes, {"x": [2]}, ["y"], {"t": np.array(True)})
    with pytest.raises(UnsupportedError, match="If node 'fork' has a subgraph"):
        export_refrt(model, {}, tmp_path / "m.refrt")


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": (1,)}, "the model has no input 'z'"),
        ({"x": (1, 3, 4, 4)}, r"input 'x' is declared \[None, 2, 4, 4\], the case feeds \[1, 3, 4, 4\]"),
        ({"x": (1, 2)}, "input 'x' is declared"),
    ],
)
def test_shapes_that_do_not_fit(small_model, tmp_path, shapes, words):
    with pytest.raises(ModelError, match=words):
        export_refrt(small_model, shapes, tmp_path / "m.refrt")


def test_an_open_shape_is_named(small_model, tmp_path):
    with pytest.raises(UnsupportedError, match="input 'x': the shape of 'x' depends on the data"):
        export_refrt(small_model, {}, tmp_path / "m.refrt")


def test_a_graph_out_of_order(tmp_path):
    nodes = [helper.make_node("Relu", ["late"], ["y"]), helper.make_node("Relu", ["x"], ["late"])]
    with pytest.raises(ModelError, match="Relu node 'y' reads 'late', which nothing before it writes"):
        export_refrt(model_of(nodes, {"x": [2]}, ["y"]), {}, tmp_path / "m.refrt")


def test_contradicting_shapes(tmp_path):
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": [2]}, ["y"], {"w": np.zeros(3, dtype=np.float32)})
    with pytest.raises(ModelError, match="Add node 'y' has inputs it cannot take"):
        export_refrt(model, {}, tmp_path / "m.refrt")


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["big"]), helper.make_node("Add", ["x", "big"], ["y"])]
    model = model_of(nodes, {"x": [1]}, ["y"], {"s": np.array([2**20, 2**20], dtype=np.int64)})
    with pytest.raises(UnsupportedError, match="ConstantOfShape node 'big' makes constant 'big'"):
        export_refrt(model, {}, tmp_path / "m.refrt")


def test_auto_pad_becomes_pads(tmp_path):
    weights = np.zeros((1, 1, 3, 4), dtype=np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 1])]
    record = export_refrt(model_of(nodes, {"x": [1, 1, 5, 5]}, ["y"], {"w": weights}), {}, tmp_path / "m.refrt")
    assert record.outputs[0].shape == (1, 1, 3, 5)


def test_an_output_may_be_an_input_or_a_constant(tmp_path):
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["w"], ["k"])]
    model = model_of(nodes, {"x": [2]}, ["y", "k"], {"w": np.ones(3, dtype=np.float32)})
    record = export_refrt(model, {}, tmp_path / "m.refrt")
    assert [layer.id for layer in record.layers] == ["y"]
    assert record.constants == ("k",)
    assert [end.shape for end in record.outputs] == [(2,), (3,)]
