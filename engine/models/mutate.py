"""Break one layer of a model on purpose: ``KIND@LAYER``, so that a gate can show that it fails."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import Protocol

import onnx

from engine.contract.errors import UsageError
from engine.models import faults
from engine.models.graph import check_model, graph_layers

LISTED = 12


class Fault(Protocol):
    """One file of ``engine/models/faults``."""

    def applicable(self, node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
        """Whether this node can have the fault."""

    def apply(self, node: onnx.NodeProto, model: onnx.ModelProto) -> None:
        """Give this node the fault."""


def kinds() -> dict[str, Fault]:
    """All kinds of fault by file name."""
    names = sorted(entry.name for entry in pkgutil.iter_modules(faults.__path__) if not entry.name.startswith("_"))
    return {name: importlib.import_module(f"{faults.__name__}.{name}") for name in names}


def parse_injection(text: str) -> tuple[str, str]:
    """``KIND@LAYER`` as (kind, layer); ``UsageError`` with the nearest kind. A layer name may hold ``@`` itself."""
    kind, at, layer = text.partition("@")
    if not at or not layer:
        raise UsageError(f"{text!r} is not KIND@LAYER", hint=f"kinds: {', '.join(kinds())}")
    if kind not in kinds():
        near = difflib.get_close_matches(kind, list(kinds()), n=1, cutoff=0.3)
        nearest = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"unknown kind of fault {kind!r}", hint=f"{nearest}kinds: {', '.join(kinds())}")
    return kind, layer


def mutate(model: onnx.ModelProto, kind: str, layer: str) -> onnx.ModelProto:
    """A copy of ``model`` whose ``layer`` (a node's first output) has the fault; nothing upstream of it changes.

    ``UsageError`` lists the layers that can have it, nearest names first.
    """
    parse_injection(f"{kind}@{layer}")
    fault = kinds()[kind]
    layers = _targets(model, fault)
    if layer not in layers:
        raise UsageError(f"{kind}@{layer}: {_why_not(model, kind, layer)}", hint=_valid(kind, layer, list(layers)))
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    fault.apply(copy.graph.node[layers[layer]], copy)
    check_model(copy, f"{kind}@{layer}")
    return copy


def valid_targets(model: onnx.ModelProto) -> dict[str, list[str]]:
    """For every kind the layers that can have it, in topological order."""
    return {name: list(_targets(model, fault)) for name, fault in kinds().items()}


def _targets(model: onnx.ModelProto, fault: Fault) -> dict[str, int]:
    """Layer id to the position of its node, for every layer that can have the fault."""
    targets = {}
    for layer in graph_layers(model):
        node = model.graph.node[layer.node]
        if layer.expected and layer.id == _first_output(node) and fault.applicable(node, model):
            targets[layer.id] = layer.node
    return targets


def _first_output(node: onnx.NodeProto) -> str:
    """The id that stands for the node: a fault in it shows there first."""
    return next((name for name in node.output if name), "")


def _why_not(model: onnx.ModelProto, kind: str, layer: str) -> str:
    for candidate in graph_layers(model):
        if candidate.id != layer:
            continue
        first = _first_output(model.graph.node[candidate.node])
        if candidate.unused:
            return "that layer feeds no output; engines leave it out"
        if candidate.constant:
            return "that layer is constant; engines fold it away"
        if first != layer:
            return f"that is a further output of {candidate.op}; name its first output, {first!r}"
        return f"{kind} does not apply to that {candidate.op} layer"
    return "the model has no such layer"


def _valid(kind: str, layer: str, layers: list[str]) -> str:
    if not layers:
        return f"no layer of this model can have {kind}; take another kind: {', '.join(kinds())}"
    near = difflib.get_close_matches(layer, layers, n=LISTED, cutoff=0.0)
    listed = near + [name for name in layers if name not in near][: LISTED - len(near)]
    more = f" and {len(layers) - len(listed)} more" if len(layers) > len(listed) else ""
    return f"{kind} applies to {len(layers)} layers: {', '.join(listed)}{more}"
