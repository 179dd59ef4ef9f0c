"""half_weights: the weights of the layer are rounded to 16 bits, as by a converter that stores them so unasked."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import replace, weights


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has weights of more than 16 bits that the rounding changes."""
    found = weights(node, model)
    return found is not None and not np.array_equal(_rounded(found[1]), found[1])


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Round the weights."""
    found = weights(node, model)
    if found:
        replace(node, found[0], model, _rounded(found[1]))


def _rounded(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(array.dtype)
