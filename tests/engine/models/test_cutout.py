"""One layer as a model of its own: what it computes is what the whole model computes there."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.contract.errors import ModelError
from engine.models.cutout import cut_out
from engine.models.golden import golden_trace
from engine.models.graph import check_model
from engine.runtimes import onnxruntime as runtime


def model() -> onnx.ModelProto:
    """Conv, Relu, a shape taken from the data, two outputs of one node, and a sum of both."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["conv"]),
        node("Relu", ["conv"], ["relu"]),
        node("Shape", ["relu"], ["size"]),
        node("Constant", [], ["one"], value=numpy_helper.from_array(np.float32([2.0]))),
        node("Mul", ["relu", "one"], ["double"]),
        node("Split", ["double"], ["left", "right"], axis=1, num_outputs=2),
        node("Add", ["left", "right"], ["sum"]),
        node("Reshape", ["relu", "size"], ["same"]),
        node("ReduceMean", ["same"], ["mean"], keepdims=0),
        node("Mul", ["sum", "mean"], ["y"]),
    ]
    weights = numpy_helper.from_array(np.random.default_rng(0).normal(size=(4, 2, 1, 1)).astype(np.float32), "w")
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 3])]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 3, 3])]
    graph = helper.make_graph(nodes, "g", ends, outs, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model().SerializeToString())
    feeds = {"x": np.random.default_rng(1).normal(size=(1, 2, 3, 3)).astype(np.float32)}
    return golden_trace(path, feeds, tmp_path), feeds


def known_of(golden, feeds):
    known = {name: (array.dtype.name, array.shape) for name, array in feeds.items()}
    return known | {layer.id: (layer.dtype, layer.shape) for layer in golden.layers}


def test_every_layer_alone_gives_the_whole_models_bits(golden):
    trace, feeds = golden
    tensors = feeds | {layer.id: trace.tensor(layer) for layer in trace.layers}
    for layer in trace.layers:
        cut = cut_out(model(), layer.id, known_of(trace, feeds))
        check_model(cut, layer.id)
        inputs = {value.name: tensors[value.name] for value in cut.graph.input}
        (got,) = runtime.run(cut.SerializeToString(), inputs, [layer.id])
        np.testing.assert_array_equal(got, tensors[layer.id], err_msg=layer.id)
        computing = [node for node in cut.graph.node if node.op_type not in ("Constant", "Shape")]
        assert len(computing) == 1, layer.id


def test_the_second_output_of_a_node_does_not_read_the_first(golden):
    cut = cut_out(model(), "right", known_of(*golden))
    assert [value.name for value in cut.graph.input] == ["double"]


def test_what_is_not_known_is_walked_back_to(golden):
    known = {name: kind for name, kind in known_of(*golden).items() if name not in ("conv", "relu")}
    cut = cut_out(model(), "double", known)
    assert [node.op_type for node in cut.graph.node] == ["Conv", "Relu", "Constant", "Mul"]
    assert [tensor.name for tensor in cut.graph.initializer] == ["w"]


def test_refusals_name_the_layer(golden):
    known = known_of(*golden)
    with pytest.raises(ModelError, match="the model computes no layer 'absent'"):
        cut_out(model(), "absent", known)
    with pytest.raises(ModelError, match="layer 'conv' depends on 'x', of which no value is known"):
        cut_out(model(), "conv", {name: kind for name, kind in known.items() if name != "x"})
