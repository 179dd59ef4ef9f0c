"""Fusion: which elementwise nodes run as stages behind the node that makes their input.

Nothing here changes a single bit. A stage is the same two roundings fused or alone, so that a plain run (stages in
registers) and an instrumented one (every stage stored) agree by construction, and every original layer is observable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.models.lowered import LoweredNode

#: Operators whose kernels apply stages, and which dimension of their output is the channel.
PRODUCERS = {"Conv": 1, "MatMul": -1}
ACTIVATIONS = frozenset({"Relu", "HardSwish", "HardSigmoid", "Sigmoid"})
MAX_STAGES = 8


@dataclass(frozen=True)
class FusedStage:
    """``node`` applied to the running value; ``parameters`` are constants with one value per channel."""

    node: LoweredNode
    parameters: tuple[str, ...]
    constants: dict[str, np.ndarray]


@dataclass(frozen=True)
class FusedNode:
    """A node with the stages behind it (none for most)."""

    node: LoweredNode
    stages: tuple[FusedStage, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the fused node writes in a plain run."""
        return self.stages[-1].node.outputs if self.stages else self.node.outputs


@dataclass(frozen=True)
class Surroundings:
    """What fusion needs to know: shapes, constants, views (name → the tensor that owns its bytes), model outputs."""

    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, np.ndarray]
    roots: Mapping[str, str]
    outputs: frozenset[str]

    def root(self, name: str) -> str:
        """The tensor that owns the bytes of ``name``."""
        return self.roots.get(name, name)


def fuse(nodes: Sequence[LoweredNode], around: Surroundings) -> list[FusedNode]:
    """Join chains of single consumers behind Conv and MatMul; the order of execution stays."""
    consumers = _consumers(nodes, around)
    pinned = {around.root(name) for name in around.outputs}
    taken: set[str] = set()
    fused = []
    for node in nodes:
        if node.outputs[0] in taken:
            continue
        stages: list[FusedStage] = []
        current = node.outputs[0]
        while node.op in PRODUCERS and current not in pinned and len(stages) < MAX_STAGES:
            readers = consumers.get(current, [])
            stage = _as_stage(readers[0], current, PRODUCERS[node.op], around) if len(readers) == 1 else None
            if stage is None:
                break
            stages.append(stage)
            current = stage.node.outputs[0]
            taken.add(current)
        fused.append(FusedNode(node, tuple(stages)))
    return fused


def _consumers(nodes: Iterable[LoweredNode], around: Surroundings) -> dict[str, list[LoweredNode]]:
    """Readers of every tensor, once per reading input, views seen through."""
    readers: dict[str, list[LoweredNode]] = {}
    for node in nodes:
        for name in node.inputs:
            if name:
                readers.setdefault(around.root(name), []).append(node)
    return readers


def _as_stage(node: LoweredNode, current: str, channel: int, around: Surroundings) -> FusedStage | None:
    shape = around.shapes[current]
    position = next(index for index, name in enumerate(node.inputs) if around.root(name) == current)
    same_shape = around.shapes[node.inputs[position]] == shape == around.shapes[node.outputs[0]]
    if not same_shape or len(shape) < 2:
        return None
    if node.op in ACTIVATIONS:
        return FusedStage(node, (), {})
    if node.op == "BatchNormalization" and position == 0 and channel == 1:
        return FusedStage(node, node.inputs[1:], node.constants)
    if node.op == "Add":
        return _bias(node, node.inputs[1 - position], shape, channel % len(shape), around)
    return None


def _bias(
    node: LoweredNode, other: str, shape: tuple[int, ...], channel: int, around: Surroundings
) -> FusedStage | None:
    """An Add of a constant that varies along the channel only."""
    value = around.constants.get(other)
    if value is None or value.ndim > len(shape):
        return None
    wide = [1] * (len(shape) - value.ndim) + list(value.shape)
    if any(size != 1 for axis, size in enumerate(wide) if axis != channel):
        return None
    name = f"{node.outputs[0]}#bias"
    per_channel = np.broadcast_to(value.reshape(-1), (shape[channel],)).astype(np.float32)
    return FusedStage(node, (name,), {name: np.ascontiguousarray(per_channel)})
