from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from engine.models.reduction import known_shapes, reduction_length

SHAPES = {
    "x": (1, 8, 10, 12),
    "w": (16, 8, 3, 3),
    "dw": (8, 1, 5, 5),
    "tw": (8, 4, 2, 2),
    "a": (7, 30),
    "b": (30, 5),
    "seq": (4, 1, 20),
    "y": (1, 8, 1, 1),
}


def node(op: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), ["y"], **attributes)


@pytest.mark.parametrize(
    ("made", "length"),
    [
        (node("Conv", "x", "w"), 8 * 9),
        (node("Conv", "x", "dw", group=8), 25),
        (node("Conv", "x", "?", group=4, kernel_shape=[3, 5]), 2 * 15),
        (node("ConvTranspose", "x", "tw"), 8 * 4),
        (node("MatMul", "a", "b"), 30),
        (node("Gemm", "a", "b"), 30),
        (node("Gemm", "a", "b", transA=1), 7),
        (node("LSTM", "seq", "w", "w", hidden_size=16), 36),
        (node("GlobalAveragePool", "x"), 120),
        (node("ReduceMean", "x", axes=[2, 3]), 120),
        (node("AveragePool", "x", kernel_shape=[2, 3]), 6),
        (node("Softmax", "a"), 30),
        (node("Softmax", "a", axis=0), 7),
        (node("LayerNormalization", "x", "?", axis=-2), 120),
        (node("InstanceNormalization", "x", "?", "?"), 120),
        (node("Relu", "x"), 1),
        (node("Relu", "?"), 1),
        (node("QLinearConv", "x", "s", "z", "w"), 72),
        # a shape that decides is not known, or makes no sense
        (node("Conv", "?", "?", kernel_shape=[3, 3]), 0),
        (node("Conv", "x", "?"), 0),
        (node("Conv", "x", "?", group=0, kernel_shape=[3, 3]), 0),
        (node("Conv", "x"), 0),
        (node("MatMul", "?", "b"), 0),
        (node("LSTM", "seq"), 0),
        (node("Softmax", "a", axis=7), 0),
        (node("AveragePool", "x", kernel_shape=[-1]), 0),
    ],
)
def test_how_many_products_an_element_is_a_sum_of(made: onnx.NodeProto, length: int) -> None:
    assert reduction_length(made, SHAPES) == length


def test_shapes_of_weights_are_found_behind_constants_and_their_copies() -> None:
    held = helper.make_tensor("v", TensorProto.FLOAT, [16, 8, 3, 3], [0.0] * (16 * 72))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=held),
        helper.make_node("Identity", ["c"], ["copy"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["real"]),
    ]
    weights = helper.make_tensor("q", TensorProto.INT8, [5, 4, 1, 1], [0] * 20)
    graph = helper.make_graph(nodes, "g", [], [], [weights])
    known = known_shapes(helper.make_model(graph), {"x": (1, 2)})
    assert known == {"x": (1, 2), "c": (16, 8, 3, 3), "copy": (16, 8, 3, 3), "q": (5, 4, 1, 1), "real": (5, 4, 1, 1)}
