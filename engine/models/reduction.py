"""How many products or elements each element of a node's output is a sum of: the error of a sum grows with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import onnx
from onnx import helper

Shape = tuple[int, ...]
#: Of a shape nobody could have used in earnest; more is taken for a broken file.
MOST = 2**40


def known_shapes(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """``shapes`` of computed tensors with those of initialisers, constants and their plain copies."""
    known = dict(shapes)
    known |= {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            held = next((entry.t for entry in node.attribute if entry.name == "value"), None)
            known |= {node.output[0]: tuple(held.dims)} if held is not None else {}
        elif node.op_type in ("Identity", "QuantizeLinear", "DequantizeLinear", "Cast") and node.input[0] in known:
            known.setdefault(node.output[0], known[node.input[0]])
    return known


def reduction_length(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """1 for a node that adds nothing up, 0 where a shape that decides is not known or makes no sense."""
    rule = _RULES.get(node.op_type)
    if rule is None:
        return 1
    try:
        length = rule(_Node(node, shapes))
    except (KeyError, IndexError, ValueError, ZeroDivisionError, TypeError):
        return 0
    return length if 0 < length <= MOST else 0


class _Node:
    """A node with the shapes around it; ``KeyError`` for one that is not known."""

    def __init__(self, node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> None:
        self.node, self.shapes = node, shapes
        self.given: dict[str, Any] = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}

    def input(self, place: int) -> Shape:
        return self.shapes[self.node.input[place]]

    def output(self) -> Shape:
        return self.shapes[self.node.output[0]]


def _conv(node: _Node, data: int = 0, weights: int = 1) -> int:
    if node.node.input[weights] in node.shapes:
        return math.prod(node.input(weights)[1:])
    return int(node.input(data)[1] // int(node.given.get("group", 1)) * math.prod(node.given["kernel_shape"]))


def _conv_transpose(node: _Node) -> int:
    weights = node.input(1)
    return weights[0] * math.prod(weights[2:])


def _gemm(node: _Node) -> int:
    return node.input(0)[0 if node.given.get("transA") else -1]


def _recurrent(node: _Node) -> int:
    return int(node.input(0)[-1]) + int(node.given["hidden_size"])


def _reduced(node: _Node) -> int:
    return math.prod(node.input(0)) // math.prod(node.output())


def _pool(node: _Node) -> int:
    return math.prod(node.given["kernel_shape"])


def _softmax(node: _Node) -> int:
    return node.input(0)[int(node.given.get("axis", -1))]


def _layer_norm(node: _Node) -> int:
    shape = node.input(0)
    return math.prod(shape[int(node.given.get("axis", -1)) % len(shape) :])


def _instance_norm(node: _Node) -> int:
    return math.prod(node.input(0)[2:])


_RULES: dict[str, Callable[[_Node], int]] = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": lambda node: _conv(node, 0, 3),
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), lambda node: node.input(0)[-1]),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool"), _reduced),
    **dict.fromkeys(
        ("ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
        _reduced,
    ),
    **dict.fromkeys(("AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
}
