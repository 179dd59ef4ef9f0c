"""nan: one weight of the layer is not a number."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import replace, weights


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has float weights in the file."""
    return weights(node, model) is not None


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Make the first weight a NaN."""
    found = weights(node, model)
    if found:
        array = found[1].copy()
        array.reshape(-1)[0] = np.nan
        replace(node, found[0], model, array)
