"""scale_weights: all weights of the layer are doubled. A cosine alone does not see it."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import replace, weights


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has float weights in the file that are not all zero."""
    found = weights(node, model)
    return found is not None and bool(np.any(found[1]))


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Double the weights."""
    found = weights(node, model)
    if found:
        replace(node, found[0], model, (found[1] * 2).astype(found[1].dtype))
