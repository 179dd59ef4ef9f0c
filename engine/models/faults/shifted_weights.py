"""shifted_weights: the weights of the layer are read from one element too far on, as after a wrong offset."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import replace, weights


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has float weights in the file that are not all the same."""
    found = weights(node, model)
    return found is not None and not np.array_equal(_shifted(found[1]), found[1])


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Move all weights by one element; the first becomes the last."""
    found = weights(node, model)
    if found:
        replace(node, found[0], model, _shifted(found[1]))


def _shifted(array: np.ndarray) -> np.ndarray:
    return np.roll(array.reshape(-1), -1).reshape(array.shape)
