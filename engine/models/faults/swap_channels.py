"""swap_channels: two output channels of the layer carry each other's weights, as after a wrong repacking."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import channels, output_axis, replace


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
    replace(node, position, model, np.moveaxis(swapped, 0, output_axis(node)))


def _channels(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[int, np.ndarray, tuple[int, int]] | None:
    """Position of the weights, the weights with output channels first, and the two channels."""
    found = channels(node, model)
    if found is None:
        return None
    position, first, magnitude = found
    small, large = int(np.argmin(magnitude)), int(np.argmax(magnitude))
    return (position, first, (small, large)) if magnitude[small] < magnitude[large] else None
