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


def channels(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[int, np.ndarray, np.ndarray] | None:
    """Position of the weights, the weights with output channels first, and the sum of magnitudes of each channel."""
    found = weights(node, model)
    if found is None or node.op_type not in ("Conv", "Gemm", "MatMul", "BatchNormalization"):
        return None
    position, array = found
    if array.ndim == 1 and node.op_type != "BatchNormalization":
        return None
    first = np.moveaxis(array, output_axis(node), 0)
    return position, first, np.abs(first.reshape(first.shape[0], -1).astype(np.float64)).sum(axis=1)


def output_axis(node: onnx.NodeProto) -> int:
    """Where the output channels lie in the weights of a node."""
    if node.op_type == "MatMul":
        return -1
    if node.op_type == "Gemm":
        transposed = attribute(node, "transB")
        return 0 if transposed is not None and transposed.i else 1
    return 0


def attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    """One attribute of a node."""
    return next((entry for entry in node.attribute if entry.name == name), None)


def set_attribute(node: onnx.NodeProto, changed: onnx.AttributeProto) -> None:
    """Give ``node`` the attribute ``changed`` in place of the one of that name."""
    kept = [entry for entry in node.attribute if entry.name != changed.name]
    del node.attribute[:]
    node.attribute.extend([*kept, changed])


def _tensor(name: str, model: onnx.ModelProto) -> onnx.TensorProto | None:
    named: dict[str, onnx.TensorProto] = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        value = attribute(node, "value") if node.op_type == "Constant" else None
        if value is not None:
            named.update(dict.fromkeys(node.output, value.t))
    return named.get(name)
