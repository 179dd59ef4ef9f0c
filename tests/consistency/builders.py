"""A small traced network of numpy arrays, and the records a capture of it would give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import xxhash

from consistency.metrics import count_nonfinite, scale_of, stats_from_arrays
from consistency.records import CaseEvidence, ObservedLayer, PlainRun, ReferenceLayer
from consistency.thresholds import absolute_bound, profile


@dataclass(frozen=True)
class Node:
    """One tensor: its id, operator, inputs and value."""

    id: str
    op: str
    inputs: tuple[str, ...]
    value: np.ndarray


def digest(array: np.ndarray) -> str:
    return xxhash.xxh3_128(np.ascontiguousarray(array).tobytes()).hexdigest()


def reference_of(trace: list[Node], canonical: list[Node] | None = None) -> tuple[ReferenceLayer, ...]:
    """Reference records; the last node is the final output, canonical is the golden itself unless given."""
    other = {node.id: node.value for node in canonical or trace}
    layers = []
    for node in trace:
        layer = ReferenceLayer(
            id=node.id,
            op=node.op,
            dtype=node.value.dtype.name,
            shape=node.value.shape,
            inputs=node.inputs,
            digest=digest(node.value),
            scale=scale_of(node.value),
            nonfinite=count_nonfinite(node.value),
            final=node is trace[-1],
            canonical_digest=digest(other[node.id]),
            canonical_nonfinite=count_nonfinite(other[node.id]),
        )
        stats = stats_from_arrays(other[node.id], node.value, absolute_bound(profile("fp32"), layer))
        layers.append(replace(layer, canonical_stats=stats))
    return tuple(layers)


def observe(node: Node, golden: Node, bound: float, **changes: object) -> ObservedLayer:
    """What a runner reports about ``node``, with statistics where its shape and kind allow them."""
    alike = node.value.shape == golden.value.shape and node.value.dtype.kind == golden.value.dtype.kind
    same = digest(node.value) == digest(golden.value)
    layer = ObservedLayer(
        id=node.id,
        op=node.op,
        dtype=node.value.dtype.name,
        shape=node.value.shape,
        digest=digest(node.value),
        nonfinite=count_nonfinite(node.value),
        stats=stats_from_arrays(node.value, golden.value, bound) if alike and not same else None,
    )
    return replace(layer, **changes)


def observe_all(
    trace: list[Node], golden: list[Node], reference: tuple[ReferenceLayer, ...], name: str = "fp32"
) -> tuple[ObservedLayer, ...]:
    rules = profile(name)
    return tuple(
        observe(node, gold, absolute_bound(rules, layer))
        for node, gold, layer in zip(trace, golden, reference, strict=True)
    )


def evidence_of(
    trace: list[Node],
    golden: list[Node],
    *,
    name: str = "fp32",
    canonical: list[Node] | None = None,
    **changes: object,
) -> CaseEvidence:
    """The evidence of a deterministic run of ``trace`` whose plain and instrumented outputs agree."""
    reference = reference_of(golden, canonical)
    observed = observe_all(trace, golden, reference, name)
    final = observed[-1]
    outputs = {final.id: final.digest}
    evidence = CaseEvidence(
        case="orientation/page",
        device="a53",
        profile=name,
        level=1,
        reference=reference,
        outputs=(final,),
        plain_runs=(PlainRun(0, outputs),),
        observed=observed,
        instrumented_outputs=outputs,
        today="2026-11-29",
    )
    return replace(evidence, **changes)


def chain(*values: object, op: str = "Conv") -> list[Node]:
    """``l0 → l1 → …`` with the given values."""
    return [
        Node(f"l{index}", op, (f"l{index - 1}",) if index else ("x",), np.asarray(value))
        for index, value in enumerate(values)
    ]
