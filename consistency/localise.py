"""Where two executions first part, on the graph and not in a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from consistency.records import ReferenceLayer


@dataclass(frozen=True)
class Frontier:
    """``introduced``: deviating layers with no deviating ancestor · ``inherited``: the other deviating ones.

    Both in topological order; together they are exactly the deviating layers of the graph.
    """

    introduced: tuple[str, ...]
    inherited: tuple[str, ...]


def first_deviating(reference: Sequence[ReferenceLayer], deviating: Collection[str]) -> Frontier:
    """Split ``deviating`` into first deviating layers and those that inherit.

    Layers that could not be observed pass the taint on: what lies behind them is still downstream. The
    same function serves any property of layers: failing, non-finite, or differing in their bits.
    """
    return frontier_of(topological(reference), deviating)


def frontier_of(order: Sequence[ReferenceLayer], deviating: Collection[str]) -> Frontier:
    """``first_deviating`` of layers that are in topological order already."""
    marked = set(deviating)
    if not marked:
        return Frontier((), ())
    tainted: set[str] = set()
    introduced: list[str] = []
    inherited: list[str] = []
    for layer in order:
        upstream = not tainted.isdisjoint(layer.inputs)
        if layer.id in marked:
            (inherited if upstream else introduced).append(layer.id)
        if upstream or layer.id in marked:
            tainted.add(layer.id)
    return Frontier(tuple(introduced), tuple(inherited))


def topological(reference: Sequence[ReferenceLayer]) -> tuple[ReferenceLayer, ...]:
    """``reference`` with every layer after its inputs, keeping the given order where it is free.

    Inputs that are no layer (graph inputs, folded constants) are ignored. ``ValueError`` on a cycle or
    on an id given twice.
    """
    by_id = {layer.id: layer for layer in reference}
    if len(by_id) != len(reference):
        raise ValueError("a reference trace names a layer twice")
    if _is_sorted(reference):  # as traces are; every comparison asks for it
        return tuple(reference)
    done: set[str] = set()
    order: list[ReferenceLayer] = []
    for root in reference:
        stack = [root]
        open_ids: set[str] = set()
        while stack:
            layer = stack[-1]
            if layer.id in done:
                stack.pop()
                continue
            open_ids.add(layer.id)
            waiting = [by_id[name] for name in layer.inputs if name in by_id and name not in done]
            if any(other.id in open_ids for other in waiting):
                raise ValueError(f"the reference graph has a cycle through {layer.id!r}")
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done.add(layer.id)
                order.append(layer)
                stack.pop()
    return tuple(order)


def _is_sorted(reference: Sequence[ReferenceLayer]) -> bool:
    """No layer reads itself or one that comes later."""
    later = {layer.id for layer in reference}
    for layer in reference:
        if not later.isdisjoint(layer.inputs):
            return False
        later.discard(layer.id)
    return True
