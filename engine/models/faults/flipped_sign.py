"""flipped_sign: the layer subtracts where it should add, or adds where it should subtract."""

from __future__ import annotations

import onnx

OPPOSITES = {"Add": "Sub", "Sub": "Add"}


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:  # noqa: ARG001 - one signature for all kinds
    """The layer adds or subtracts."""
    return node.op_type in OPPOSITES


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:  # noqa: ARG001 - one signature for all kinds
    """Put the opposite in its place."""
    node.op_type = OPPOSITES[node.op_type]
