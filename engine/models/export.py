"""ONNX in, flat model file out: the whole way from a graph with open shapes to what `refrt` maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from engine.models.flatfile import FlatLayer, FlatModel, FlatNode, FlatStage, FlatTensor, write_flat
from engine.models.lower import lower
from engine.models.lowered import LoweredNode
from engine.models.optimise import FusedNode, Surroundings, fuse
from engine.models.shapes import StaticGraph, TensorType, make_static


@dataclass(frozen=True)
class ExportedTensor:
    """A model input or output."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ExportedLayer:
    """A layer the runner will report. ``covers`` lists tensors fused into it that it cannot show (none here)."""

    id: str
    op: str
    covers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportRecord:
    """What became of the model: ``dataclasses.asdict`` gives JSON.

    ``constants`` do not depend on the inputs and were computed at export; ``removed`` feed no output;
    ``fused`` maps a node's first output to the outputs of the stages behind it.
    """

    layers: tuple[ExportedLayer, ...]
    constants: tuple[str, ...]
    removed: tuple[str, ...]
    fused: dict[str, tuple[str, ...]]
    inputs: tuple[ExportedTensor, ...]
    outputs: tuple[ExportedTensor, ...]


def export_refrt(model: onnx.ModelProto, input_shapes: Mapping[str, tuple[int, ...]], out: Path) -> ExportRecord:
    """Write ``out``, the flat file of ``model`` for exactly these input shapes.

    Inputs left out of ``input_shapes`` keep their declared shape. The same model and shapes give the same bytes;
    the file appears only when complete. ``UnsupportedError`` names an operator and its node that `refrt` lacks,
    ``ModelError`` a graph that contradicts itself.
    """
    graph = make_static(model, input_shapes)
    live, removed = _live_nodes(graph)
    lowered = [lower(node, graph) for node in live]
    builder = _Builder(graph, lowered)
    write_flat(builder.build(), out)
    return ExportRecord(
        layers=tuple(ExportedLayer(layer.id, layer.op) for layer in builder.layers),
        constants=graph.folded,
        removed=removed,
        fused={
            item.node.outputs[0]: tuple(s.node.outputs[0] for s in item.stages) for item in builder.fused if item.stages
        },
        inputs=tuple(_end(name, graph.types[name]) for name in graph.inputs),
        outputs=tuple(_end(name, graph.types[name]) for name in graph.outputs),
    )


def _end(name: str, kind: TensorType) -> ExportedTensor:
    return ExportedTensor(name, kind.dtype, kind.shape)


def _live_nodes(graph: StaticGraph) -> tuple[list[onnx.NodeProto], tuple[str, ...]]:
    """Nodes that some output needs, and the outputs of the others."""
    wanted = set(graph.outputs)
    live: list[onnx.NodeProto] = []
    removed: list[str] = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.output):
            live.append(node)
            wanted.update(name for name in node.input if name)
        else:
            removed.extend(name for name in node.output if name)
    return live[::-1], tuple(removed[::-1])


@dataclass
class _Builder:
    """Numbers tensors and nodes; constants come right before the node that reads them, in execution order."""

    graph: StaticGraph
    lowered: list[LoweredNode]
    tensors: list[FlatTensor] = field(default_factory=list)
    nodes: list[FlatNode] = field(default_factory=list)
    layers: list[FlatLayer] = field(default_factory=list)
    fused: list[FusedNode] = field(default_factory=list)
    roots: dict[str, str] = field(default_factory=dict)
    _index: dict[str, int] = field(default_factory=dict)
    _writer: dict[str, int] = field(default_factory=dict)

    def build(self) -> FlatModel:
        for node in self.lowered:
            if node.view:
                self.roots[node.outputs[0]] = self._root(node.inputs[0])
        shapes = {name: kind.shape for name, kind in self.graph.types.items()}
        around = Surroundings(shapes, self.graph.constants, self.roots, frozenset(self.graph.outputs))
        self.fused = fuse([node for node in self.lowered if not node.view], around)
        for name in self.graph.inputs:
            self._add(name)
            self._writer[name] = -1
        for item in self.fused:
            self._node(item)
        outputs = tuple(self._tensor(name) for name in self.graph.outputs)
        self._layers()
        inputs = tuple(self._index[name] for name in self.graph.inputs)
        return FlatModel(tuple(self.tensors), tuple(self.nodes), tuple(self.layers), inputs, outputs)

    def _root(self, name: str) -> str:
        return self.roots.get(name, name)

    def _add(self, name: str, alias: int | None = None, data: np.ndarray | None = None) -> int:
        kind = self.graph.types[name] if data is None else TensorType(data.dtype.name, data.shape)
        self._index[name] = len(self.tensors)
        self.tensors.append(FlatTensor(name, kind.dtype, kind.shape, alias, data))
        return self._index[name]

    def _tensor(self, name: str, made: Mapping[str, np.ndarray] | None = None) -> int:
        """Index of a tensor that is read: constants and views enter the table when first needed."""
        if name in self._index:
            return self._index[name]
        if made and name in made:
            return self._add(name, data=made[name])
        if name in self.graph.constants:
            return self._add(name, data=self.graph.constants[name])
        root = self._root(name)
        return self._add(name, alias=self._tensor(root)) if root != name else self._add(name)

    def _node(self, item: FusedNode) -> None:
        node = item.node
        inputs = tuple(self._tensor(name, node.constants) if name else None for name in node.inputs)
        raw = self._add(node.outputs[0]) if item.stages else None
        stages = []
        for stage in item.stages:
            parameters = tuple(self._tensor(name, stage.constants) for name in stage.parameters)
            output = self._add(stage.node.outputs[0])
            stages.append(FlatStage(stage.node.op, output, parameters, stage.node.attributes))
        outputs = (stages[-1].output,) if stages else tuple(self._add(name) if name else None for name in node.outputs)
        for name in (*node.outputs, *(stage.node.outputs[0] for stage in item.stages)):
            self._writer[name] = len(self.nodes)
        self.nodes.append(FlatNode(node.op, node.name, inputs, outputs, node.attributes, tuple(stages), raw))

    def _layers(self) -> None:
        for node in self.lowered:
            for name in node.outputs:
                if name:
                    writer = self._writer[self._root(name)]
                    self.layers.append(FlatLayer(name, node.op, self._tensor(name), writer))
