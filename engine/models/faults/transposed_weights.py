"""transposed_weights: two equal axes of the layer's weights are exchanged; the shape shows nothing of it."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import replace, weights


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has float weights with two neighbouring axes of one size whose exchange changes them."""
    return _transposed(node, model) is not None


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Exchange the last two axes that can be."""
    found = _transposed(node, model)
    if found:
        replace(node, found[0], model, found[1])


def _transposed(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[int, np.ndarray] | None:
    found = weights(node, model)
    if found is None:
        return None
    position, array = found
    for axis in range(array.ndim - 1, 0, -1):
        if array.shape[axis] == array.shape[axis - 1]:
            exchanged = np.swapaxes(array, axis, axis - 1)
            if not np.array_equal(exchanged, array):
                return position, exchanged
    return None
