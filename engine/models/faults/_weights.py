"""Constants of a node, read and replaced without touching what other nodes read."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

#: Position of the weights among a node's inputs, by operator.
WEIGHTS = {
    "Conv": 1,
    "ConvTranspose": 1,
    "Gemm": 1,
    "MatMul": 1,
    "LSTM": 1,
    "GRU": 1,
    "RNN": 1,
    "BatchNormalization": 1,
    "InstanceNormalization": 1,
    "LayerNormalization": 1,
}

#: Position of the bias among a node's inputs, by operator.
BIASES = {
    "Conv": 2,
    "ConvTranspose": 2,
    "Gemm": 2,
    "LSTM": 3,
    "GRU": 3,
    "RNN": 3,
    "BatchNormalization": 2,
    "InstanceNormalization": 2,
    "LayerNormalization": 2,
}


def constant(node: onnx.NodeProto, position: int | None, model: onnx.ModelProto) -> np.ndarray | None:
    """The float array a node reads at ``position`` if it is a constant of the file, else None."""
    if position is None or position >= len(node.input) or not node.input[position]:
        return None
    tensor = _tensor(node.input[position], model)
    if tensor is None:
        return None
    array = numpy_helper.to_array(tensor)
    return array if np.issubdtype(array.dtype, np.floating) and array.size else None


def replace(node: onnx.NodeProto, position: int, model: onnx.ModelProto, array: np.ndarray) -> None:
    """Let ``node`` alone read ``array`` at ``position``; the old constant stays for the others."""
    taken = {tensor.name for tensor in model.graph.initializer}
    taken |= {name for other in model.graph.node for name in (*other.input, *other.output)}
    taken |= {value.name for value in model.graph.input}
    name = f"{node.input[position]}.fault"
    while name in taken:
        name += "_"
    model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
    node.input[position] = name


def weights(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[int, np.ndarray] | None:
    """Position and values of the node's weights."""
    position = WEIGHTS.get(node.op_type)
    array = constant(node, position, model)
    return (position, array) if position is not None and array is not None else None


def attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    """One attribute of a node."""
    return next((entry for entry in node.attribute if entry.name == name), None)


def _tensor(name: str, model: onnx.ModelProto) -> onnx.TensorProto | None:
    named: dict[str, onnx.TensorProto] = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        value = attribute(node, "value") if node.op_type == "Constant" else None
        if value is not None:
            named.update(dict.fromkeys(node.output, value.t))
    return named.get(name)
