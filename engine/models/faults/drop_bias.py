"""drop_bias: the bias of the layer is zero. An Add of a constant and a normalisation's shift are biases too."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import BIASES, constant, replace


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has a float bias in the file that is not all zero."""
    found = _bias(node, model)
    return found is not None and bool(np.any(found[1]))


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Make the bias zero."""
    found = _bias(node, model)
    if found:
        replace(node, found[0], model, np.zeros_like(found[1]))


def _bias(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[int, np.ndarray] | None:
    positions = (0, 1) if node.op_type == "Add" else (BIASES.get(node.op_type),)
    for position in positions:
        array = constant(node, position, model)
        if position is not None and array is not None:
            return position, array
    return None
