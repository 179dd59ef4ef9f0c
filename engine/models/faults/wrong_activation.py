"""wrong_activation: the layer computes its operator's neighbour, or the same one with another library's constants."""

from __future__ import annotations

import onnx
from onnx import helper

from engine.models.faults._weights import attribute, set_attribute

#: What takes the place of an activation: left out, or taken for its relative.
NEIGHBOURS = {
    "Relu": "Identity",
    "HardSwish": "Relu",
    "Sigmoid": "HardSigmoid",
    "Tanh": "Softsign",
    "Erf": "Tanh",
    "Elu": "Relu",
    "LeakyRelu": "Relu",
    "Softplus": "Relu",
}
#: The slope of HardSigmoid: ONNX says 0.2 by default, most of today's libraries mean 1/6.
SLOPES = (0.2, 1.0 / 6.0)


def applicable(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:  # noqa: ARG001 - one signature for all kinds
    """The layer is an activation with a neighbour."""
    return node.op_type in NEIGHBOURS or node.op_type == "HardSigmoid"


def apply(node: onnx.NodeProto, model: onnx.ModelProto) -> None:  # noqa: ARG001 - one signature for all kinds
    """Put the neighbour in its place; HardSigmoid gets the other slope."""
    if node.op_type == "HardSigmoid":
        given = attribute(node, "alpha")
        old = given.f if given is not None else SLOPES[0]
        set_attribute(node, helper.make_attribute("alpha", max(SLOPES, key=lambda slope: abs(slope - old))))
    else:
        node.op_type = NEIGHBOURS[node.op_type]
        del node.attribute[:]
