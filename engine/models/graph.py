"""An ONNX file read as untrusted data: size, structure, no files beside it; and its layers in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from engine.contract.errors import ModelError, UnsupportedError

MAX_MODEL_BYTES = 2**31 - 1
MAX_NODES = 100_000
#: Operators whose result depends on the shape of their input only, never on its values.
SHAPE_ONLY = frozenset({"Shape", "Size"})
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


@dataclass(frozen=True)
class GraphLayer:
    """One node output. ``inputs`` are tensors that depend on the model's inputs; ``node`` is the node's position.

    ``constant`` layers do not depend on input values, ``unused`` ones feed no output: no engine need compute them.
    """

    id: str
    op: str
    inputs: tuple[str, ...]
    node: int
    constant: bool
    unused: bool
    final: bool

    @property
    def expected(self) -> bool:
        """Whether an engine computes this layer when it runs."""
        return not (self.constant or self.unused)


def read_model(path: Path) -> onnx.ModelProto:
    """Parse and check an ONNX file; ``ModelError`` or ``UnsupportedError`` in words for a hostile or foreign one."""
    try:
        size = path.stat().st_size
        if not 0 < size <= MAX_MODEL_BYTES:
            raise ModelError(f"{path}: {size} bytes is no model size", hint=f"1 to {MAX_MODEL_BYTES} bytes are taken")
        model = onnx.ModelProto()
        model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read: {error.strerror}", hint="check the path and its permissions"
        ) from error
    except DecodeError as error:
        raise ModelError(f"{path}: not an ONNX model: {error}", hint="check that the file is complete") from error
    check_model(model, str(path))
    return model


def check_model(model: onnx.ModelProto, name: str) -> None:
    """Refuse what is no valid, self-contained, static-control-flow model."""
    if len(model.graph.node) > MAX_NODES:
        raise ModelError(f"{name}: {len(model.graph.node)} nodes", hint=f"at most {MAX_NODES} are taken")
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise ModelError(
                f"{name}: tensor {tensor.name!r} lies in another file", hint="save the model with its weights inside"
            )
    for node in model.graph.node:
        if any(
            attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute
        ):
            raise UnsupportedError(
                f"{name}: {node.op_type} {node.name!r} holds a sub-graph", hint="export the model without control flow"
            )
        if node.op_type in RANDOM:
            raise UnsupportedError(f"{name}: {node.op_type} {node.name!r} is random", hint="export it for inference")
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, RuntimeError, TypeError) as error:
        words = str(error).strip().splitlines()[0][:400]
        raise ModelError(f"{name}: not a valid ONNX model: {words}", hint="check it with onnx.checker") from error


def graph_layers(model: onnx.ModelProto) -> tuple[GraphLayer, ...]:
    """Every named node output in the file's (topological) order."""
    initial = {tensor.name for tensor in model.graph.initializer}
    initial |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    varying = {value.name for value in model.graph.input} - initial
    finals = {value.name for value in model.graph.output}
    used = _used_nodes(model)
    layers = []
    for position, node in enumerate(model.graph.node):
        inputs = tuple(dict.fromkeys(name for name in node.input if name in varying))
        constant = not inputs or node.op_type in SHAPE_ONLY
        for name in (name for name in node.output if name):
            if not constant:
                varying.add(name)
            kept = () if constant else inputs
            unused = position not in used
            layers.append(GraphLayer(name, node.op_type, kept, position, constant, unused, name in finals))
    return tuple(layers)


def _used_nodes(model: onnx.ModelProto) -> set[int]:
    """Positions of the nodes that some output of the model needs."""
    wanted = {value.name for value in model.graph.output}
    used = set()
    for position in reversed(range(len(model.graph.node))):
        node = model.graph.node[position]
        if wanted & set(node.output):
            used.add(position)
            wanted |= set(node.input) - {""}
    return used


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from model.graph.initializer
    for sparse in model.graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield sparse.values
                yield sparse.indices
