"""Walks an ONNX graph once: every shape static, every node that does not depend on the inputs folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.contract.errors import ModelError, UnsupportedError
from engine.runtimes.onnx_reference import opset_for

#: Folded tensors beyond this are refused: a small hostile file could ask for any amount.
MAX_FOLDED_BYTES = 256 * 1024 * 1024

#: Their result needs the shape of the input only.
SHAPE_OPS = frozenset({"Shape", "Size"})


@dataclass(frozen=True)
class TensorType:
    """numpy dtype name and static shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class StaticGraph:
    """A graph whose shapes are all known.

    ``nodes`` are those that depend on the inputs, in order; ``constants`` holds initialisers and folded results,
    ``folded`` names the folded node outputs (no initialisers).
    """

    nodes: tuple[onnx.NodeProto, ...]
    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]
    folded: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int


@dataclass
class _Walk:
    opsets: Sequence[onnx.OperatorSetIdProto]
    ir_version: int
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add_constant(self, name: str, value: np.ndarray) -> None:
        self.constants[name] = value
        self.types[name] = TensorType(value.dtype.name, value.shape)

    def visit(self, node: onnx.NodeProto) -> None:
        for name in node.input:
            if name and name not in self.types:
                raise ModelError(f"{describe(node)} reads {name!r}, which nothing before it writes")
        if any(
            attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute
        ):
            raise UnsupportedError(f"{describe(node)} has a subgraph", hint="export the model without control flow")
        if node.op_type in SHAPE_OPS:
            self._fold(node, self._zeros_like_inputs(node))
        elif all(name in self.constants for name in node.input if name):
            self._fold(node, {name: self.constants[name] for name in node.input if name})
        else:
            self.types |= self._infer(node)
            self.nodes.append(node)

    def _zeros_like_inputs(self, node: onnx.NodeProto) -> dict[str, np.ndarray]:
        """Stand-ins that take no memory: one element seen through a stride of zero."""
        types = {name: self.types[name] for name in node.input if name}
        return {name: np.broadcast_to(np.zeros((), kind.dtype), kind.shape) for name, kind in types.items()}

    def _fold(self, node: onnx.NodeProto, feeds: Mapping[str, np.ndarray]) -> None:
        if node.op_type != "Constant":
            for name, kind in self._infer(node).items():
                if np.dtype(kind.dtype).itemsize * np.prod(kind.shape, dtype=np.float64) > MAX_FOLDED_BYTES:
                    raise UnsupportedError(f"{describe(node)} makes constant {name!r} of shape {list(kind.shape)}")
        try:
            model = self._model_of(node, typed=False)
            for entry in model.opset_import:
                entry.version = opset_for(node.op_type, entry.version)
            evaluator = ReferenceEvaluator(model)
            values = evaluator.run(None, dict(feeds))
        except Exception as error:  # the evaluator raises whatever its numpy code met
            raise ModelError(f"cannot evaluate {describe(node)}: {error}") from error
        for name, value in zip((name for name in node.output if name), values, strict=True):
            self.add_constant(name, np.asarray(value))
            self.folded.append(name)

    def _infer(self, node: onnx.NodeProto) -> dict[str, TensorType]:
        """Types of the node's outputs, by ONNX's own shape inference on that node alone."""
        try:
            inferred = onnx.shape_inference.infer_shapes(
                self._model_of(node, typed=True), check_type=True, strict_mode=True, data_prop=True
            )
        except Exception as error:  # onnx raises its own C++ errors, RuntimeError or ValueError
            raise ModelError(f"{describe(node)} has inputs it cannot take: {error}") from error
        known = {info.name: info for info in inferred.graph.output}
        return {name: type_of(known[name], describe(node)) for name in node.output if name}

    def _model_of(self, node: onnx.NodeProto, typed: bool) -> onnx.ModelProto:
        inputs, initialisers = [], []
        for name in dict.fromkeys(name for name in node.input if name):
            if typed and name in self.constants:
                initialisers.append(_as_initialiser(name, self.constants[name]))
            else:
                kind = self.types[name]
                element = helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype))
                inputs.append(helper.make_tensor_value_info(name, element, kind.shape))
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "one", inputs, outputs, initialisers)
        return helper.make_model(graph, opset_imports=list(self.opsets), ir_version=self.ir_version)


def make_static(model: onnx.ModelProto, input_shapes: Mapping[str, tuple[int, ...]]) -> StaticGraph:
    """Fix the input shapes and follow them through the graph.

    ``ModelError``: the graph contradicts itself or the given shapes. ``UnsupportedError``: control flow, or a shape
    that depends on the data.
    """
    walk = _Walk(model.opset_import, max(model.ir_version, 3))
    for tensor in model.graph.initializer:
        try:
            walk.add_constant(tensor.name, numpy_helper.to_array(tensor))
        except Exception as error:  # damaged or external tensor data
            raise ModelError(f"cannot read initialiser {tensor.name!r}: {error}") from error
    inputs = [info for info in model.graph.input if info.name not in walk.constants]
    unknown = set(input_shapes) - {info.name for info in inputs}
    if unknown:
        raise ModelError(f"the model has no input {sorted(unknown)[0]!r}; it has {[info.name for info in inputs]}")
    for info in inputs:
        walk.types[info.name] = _input_type(info, input_shapes.get(info.name))
    for node in model.graph.node:
        walk.visit(node)
    for info in model.graph.output:
        if info.name not in walk.types:
            raise ModelError(f"nothing writes the output {info.name!r}")
    return StaticGraph(
        nodes=tuple(walk.nodes),
        types=walk.types,
        constants=walk.constants,
        folded=tuple(walk.folded),
        inputs=tuple(info.name for info in inputs),
        outputs=tuple(info.name for info in model.graph.output),
        opset=_opset(model),
    )


def describe(node: onnx.NodeProto) -> str:
    """``Op node 'name'``, with the first output standing in for a missing name."""
    return f"{node.op_type} node {(node.name or next(iter(node.output), ''))!r}"


def type_of(info: onnx.ValueInfoProto, where: str) -> TensorType:
    """Static type of an inferred value; ``UnsupportedError`` when a dimension is open."""
    kind = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise UnsupportedError(f"{where}: the shape of {info.name!r} depends on the data")
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
    if any(dim < 0 for dim in dims):
        raise UnsupportedError(f"{where}: the shape of {info.name!r} depends on the data")
    return TensorType(_dtype(kind.elem_type, info.name), tuple(dims))


def _dtype(element: int, name: str) -> str:
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element)).name
    except (KeyError, ValueError, TypeError) as error:
        raise ModelError(f"tensor {name!r} has unknown element type {element}") from error


def _input_type(info: onnx.ValueInfoProto, shape: tuple[int, ...] | None) -> TensorType:
    where = f"input {info.name!r}"
    if shape is None:
        return type_of(info, where)
    kind = info.type.tensor_type
    if kind.HasField("shape"):
        # exporters of old write -1 for an open dimension
        declared = [
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.shape.dim
        ]
        matches = len(declared) == len(shape) and all(
            known in (None, given) for known, given in zip(declared, shape, strict=False)
        )
        if not matches:
            raise ModelError(f"{where} is declared {declared}, the case feeds {list(shape)}")
    return TensorType(_dtype(kind.elem_type, info.name), tuple(shape))


def _opset(model: onnx.ModelProto) -> int:
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            return int(entry.version)
    raise ModelError("the model names no ONNX operator set")


def _as_initialiser(name: str, value: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
