"""dead_channel: one output channel of the layer has no weights, as after a thread that did not run."""

from __future__ import annotations

import numpy as np
import onnx

from engine.models.faults._weights import channels, output_axis, replace


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """The layer has several output channels in its weights, not all of them zero."""
    return _channels(node, model) is not None


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Make the weights of the channel of middle magnitude zero: neither a dead nor the loudest one."""
    found = _channels(node, model)
    if found is None:
        return
    position, first, channel = found
    quiet = first.copy()
    quiet[channel] = 0.0
    replace(node, position, model, np.moveaxis(quiet, 0, output_axis(node)))


def _channels(node: onnx.NodeProto, model: onnx.ModelProto) -> tuple[int, np.ndarray, int] | None:
    """Position of the weights, the weights with output channels first, and the channel."""
    found = channels(node, model)
    if found is None:
        return None
    position, first, magnitude = found
    alive = np.flatnonzero(magnitude > 0)
    if first.shape[0] < 2 or not alive.size:
        return None
    order = alive[np.argsort(magnitude[alive], kind="stable")]
    return position, first, int(order[order.size // 2])
