"""What a lowering looks at, and what it gives: one ONNX node, and one node for the flat file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper

from engine.contract.errors import ModelError, UnsupportedError
from engine.models.flatfile import AttributeValue
from engine.models.shapes import StaticGraph, describe


@dataclass(frozen=True)
class LoweredNode:
    """One node for the flat file; inputs and outputs by tensor name, "" for absent ones.

    ``constants`` are parameters made here; ``view`` marks a node that only renames or reshapes its first input.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    view: bool = False


@dataclass(frozen=True)
class Source:
    """What a lowering function looks at: a node, and the graph around it."""

    node: onnx.NodeProto
    graph: StaticGraph

    def attribute(self, name: str, absent: object = None) -> object:
        """Value of the ONNX attribute as it is, or ``absent``."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                return helper.get_attribute_value(attribute)
        return absent

    def integer(self, name: str, absent: int) -> int:
        """The attribute; ``ModelError`` when it is of another type, as for those below."""
        value = self.attribute(name, absent)
        if not isinstance(value, int):
            raise ModelError(f"{describe(self.node)}: attribute {name} is not an integer")
        return value

    def integers(self, name: str, absent: Sequence[int]) -> list[int]:
        """The attribute, a list of integers."""
        value = self.attribute(name, absent)
        if not isinstance(value, Sequence) or not all(isinstance(item, int) for item in value):
            raise ModelError(f"{describe(self.node)}: attribute {name} is not a list of integers")
        return [int(item) for item in value]

    def number(self, name: str, absent: float) -> float:
        """The attribute, a float."""
        value = self.attribute(name, absent)
        if not isinstance(value, float):
            raise ModelError(f"{describe(self.node)}: attribute {name} is not a number")
        return value

    def text(self, name: str, absent: str) -> str:
        """The attribute as text."""
        value = self.attribute(name, absent)
        return value.decode() if isinstance(value, bytes) else str(value)

    def shape(self, index: int) -> tuple[int, ...]:
        """Static shape of an input; ``IndexError`` when the node has fewer."""
        return self.graph.types[self.node.input[index]].shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Static shape of the first output."""
        return self.graph.types[self.node.output[0]].shape

    def constant(self, index: int) -> np.ndarray | None:
        """Value of a constant input; None when absent; ``UnsupportedError`` when it depends on the data."""
        name = self.node.input[index] if index < len(self.node.input) else ""
        if not name:
            return None
        if name not in self.graph.constants:
            raise UnsupportedError(f"{describe(self.node)}: input {name!r} must be constant")
        return self.graph.constants[name]

    def need(self, index: int) -> np.ndarray:
        """Value of a constant input; ``ModelError`` when absent."""
        value = self.constant(index)
        if value is None:
            raise ModelError(f"{describe(self.node)} lacks input {index}")
        return value

    def lowered(self, inputs: Sequence[str] | None = None, **attributes: AttributeValue) -> LoweredNode:
        """The node with these inputs (default: its own) and attributes, absent ones at the end dropped."""
        names = list(self.node.input if inputs is None else inputs)
        while names and not names[-1]:
            names.pop()
        outputs = list(self.node.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        name = self.node.name or next(iter(self.node.output), "")
        return LoweredNode(self.node.op_type, name, tuple(names), tuple(outputs), dict(attributes))
