"""wrong_epsilon: the layer normalises with the other usual epsilon, as where a converter fills in its own default."""

from __future__ import annotations

import onnx
from onnx import helper

from engine.models.faults._weights import attribute, set_attribute

NORMALISATIONS = frozenset({"BatchNormalization", "InstanceNormalization", "LayerNormalization"})
SMALL, LARGE = 1e-5, 1e-3


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:  # noqa: ARG001 - one signature for all kinds
    """The layer normalises."""
    return node.op_type in NORMALISATIONS


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:  # noqa: ARG001 - one signature for all kinds
    """Take 1e-3 where it was 1e-5 or thereabouts, and 1e-5 where it was larger."""
    given = attribute(node, "epsilon")
    old = given.f if given is not None else SMALL
    set_attribute(node, helper.make_attribute("epsilon", LARGE if old < LARGE / 2 else SMALL))
