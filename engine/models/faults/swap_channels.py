"""swap_channels: two output channels of the layer carry each other's weights, as after a wrong repacking."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import attribute, replace, weights


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has output channels in its weights and two of them differ."""
    return _channels(node, model) is not None


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Swap the weights of the channels of smallest and largest magnitude."""
    found = _channels(node, model)
    if found is None:
        return
    position, array, (small, large) = found
    swapped = array.copy()
    swapped[[small, large]] = array[[large, small]]
    replace(node, position, model, np.moveaxis(swapped, 0, _axis(node)))


def _channels(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[int, np.ndarray, tuple[int, int]] | None:
    """Position of the weights, the weights with output channels first, and the two channels."""
    found = weights(node, model)
    if found is None or node.op_type not in ("Conv", "Gemm", "MatMul", "BatchNormalization"):
        return None
    position, array = found
    if array.ndim == 1 and node.op_type != "BatchNormalization":
        return None
    first = np.moveaxis(array, _axis(node), 0)
    magnitude = np.abs(first.reshape(first.shape[0], -1).astype(np.float64)).sum(axis=1)
    small, large = int(np.argmin(magnitude)), int(np.argmax(magnitude))
    return (position, first, (small, large)) if magnitude[small] < magnitude[large] else None


def _axis(node: onnx.NodeProto) -> int:
    """Where the output channels lie in the weights."""
    if node.op_type == "MatMul":
        return -1
    if node.op_type == "Gemm":
        transposed = attribute(node, "transB")
        return 0 if transposed is not None and transposed.i else 1
    return 0
