"""wrong_padding: the layer pads on the wrong side, or with the wrong values; its shape stays."""

from __future__ import annotations

import onnx
from onnx import helper

from engine.models.faults._weights import attribute, set_attribute

WINDOWED = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:  # noqa: ARG001 - one signature for all kinds
    """The layer pads, and could do so differently at the same shape."""
    return node.op_type == "Pad" or (node.op_type in WINDOWED and _other_side(node) is not None)


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:  # noqa: ARG001 - one signature for all kinds
    """Move a window's padding to the other side; let Pad fill in zeros (or the edge where it did)."""
    if node.op_type == "Pad":
        mode = attribute(node, "mode")
        old = mode.s.decode() if mode is not None else "constant"
        changed = helper.make_attribute("mode", "edge" if old == "constant" else "constant")
    else:
        changed = _other_side(node) or helper.make_attribute("auto_pad", "NOTSET")
    set_attribute(node, changed)


def _other_side(node: onnx.NodeProto) -> onnx.AttributeProto | None:
    """The attribute that puts the same amount of padding elsewhere, or None."""
    automatic = attribute(node, "auto_pad")
    mirror = {b"SAME_UPPER": "SAME_LOWER", b"SAME_LOWER": "SAME_UPPER"}
    if automatic is not None and automatic.s in mirror:
        return helper.make_attribute("auto_pad", mirror[automatic.s])
    given = attribute(node, "pads")
    if given is None or not any(given.ints):
        return None
    pads = list(given.ints)
    half = len(pads) // 2
    begin = [0 if before else before + after for before, after in zip(pads[:half], pads[half:], strict=True)]
    end = [before + after - new for before, after, new in zip(pads[:half], pads[half:], begin, strict=True)]
    return helper.make_attribute("pads", begin + end)
