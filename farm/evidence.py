"""From what devices and references say to the plain records ``consistency`` judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from consistency.records import LayerRuns, NonFinite, ObservedLayer, ReferenceLayer, Scale, Stats
from engine.contract.trace import Trace, TraceLayer

_ALL_FINITE = NonFinite()


def reference_layers(golden: Trace, canonical: Trace | None) -> tuple[ReferenceLayer, ...]:
    """The golden's layers in topological order, each with what the canonical trace says of it."""
    known = canonical.by_id() if canonical else {}
    layers = []
    for layer in golden.layers:
        other = known.get(layer.id)
        layers.append(
            ReferenceLayer(
                id=layer.id,
                op=layer.op,
                dtype=layer.dtype,
                shape=layer.shape,
                inputs=layer.inputs,
                digest=layer.digest,
                nonfinite=NonFinite(**vars(layer.nonfinite)),
                scale=Scale(**vars(layer.summary)),
                final=layer.final,
                canonical_digest=other.digest if other else None,
                canonical_stats=Stats(**vars(other.stats)) if other and other.stats else None,
                canonical_nonfinite=NonFinite(**vars(other.nonfinite)) if other else NonFinite(),
                reduction=layer.reduction,
            )
        )
    return tuple(layers)


def as_observed(layer: TraceLayer, stats: Stats | None) -> ObservedLayer:
    """A reference's layer as if a device had shown it, compared elsewhere."""
    nonfinite = NonFinite(**vars(layer.nonfinite))
    return ObservedLayer(layer.id, layer.op, layer.dtype, layer.shape, layer.digest, nonfinite=nonfinite, stats=stats)


def observed_layers(answer: Mapping[str, Any]) -> tuple[ObservedLayer, ...]:
    """The layers of the instrumented pass in one job's answer; empty for a level-0 engine."""
    return _layers(answer["layers"])


def layers_alone(answer: Mapping[str, Any]) -> tuple[ObservedLayer, ...]:
    """The layers that ran alone on the golden's inputs; empty in answers that have none."""
    return _layers(answer.get("alone", ()))


def layer_runs(answer: Mapping[str, Any], layers: Iterable[ObservedLayer]) -> tuple[dict[str, LayerRuns], int]:
    """The layers that were not the same in every run, by id, and how often the layers ran.

    ``layers`` are the observed ones: a run of a layer differs from its record in what it held.
    """
    told = answer.get("layers_again", {"runs": 1, "varying": {}})
    known = {layer.id: layer for layer in layers}
    found = {}
    for name, entry in told["varying"].items():
        if name in known:
            shown = {digest: _held(known[name], digest, values) for digest, values in entry["shown"].items()}
            found[name] = LayerRuns(tuple(entry["digests"]), shown, tuple(entry["on_one"]), entry["width"])
    return found, told["runs"]


def _held(layer: ObservedLayer, digest: str, values: Mapping[str, Any]) -> ObservedLayer:
    stats = Stats(**values["stats"]) if values["stats"] else None
    span = layer.constant_span if digest == layer.digest else None
    return replace(layer, digest=digest, stats=stats, nonfinite=NonFinite(**values["nonfinite"]), constant_span=span)


def stats_by_canonical(answer: Mapping[str, Any]) -> dict[tuple[str, str], Stats]:
    """By layer and digest, statistics of the device against canonical, where its bits are not canonical's."""
    layers = _layers(answer.get("by_canonical", ()))
    return {(layer.id, layer.digest): layer.stats for layer in layers if layer.stats is not None}


def direct_layers(answer: Mapping[str, Any]) -> frozenset[str] | None:
    """The layers seen a few at a time without changing the result; ``None`` when nobody tried."""
    looked = answer.get("looked")
    return None if looked is None else frozenset(looked["direct"])


def _layers(records: Iterable[Mapping[str, Any]]) -> tuple[ObservedLayer, ...]:
    return tuple(
        ObservedLayer(
            id=record["id"],
            op=record["op"],
            dtype=record["dtype"],
            shape=tuple(record["shape"]),
            layout=record["layout"],
            backend=record["backend"],
            segment=record["segment"],
            digest=record["digest"],
            covers=tuple(record["covers"]),
            nonfinite=NonFinite(**record["nonfinite"]) if any(record["nonfinite"].values()) else _ALL_FINITE,
            stats=Stats(**record["stats"]) if record["stats"] else None,
        )
        for record in records
    )


def observed_outputs(answer: Mapping[str, Any]) -> tuple[ObservedLayer, ...]:
    """The final outputs of the plain pass, with statistics where the host measured them."""
    return tuple(
        ObservedLayer(
            id=record["name"],
            op="output",
            dtype=record["dtype"],
            shape=tuple(record["shape"]),
            digest=record["digest"],
            backend=answer["effective"]["backend"],
            nonfinite=NonFinite(**record["nonfinite"]) if record.get("nonfinite") else NonFinite(),
            stats=Stats(**record["stats"]) if record.get("stats") else None,
            constant_span=record.get("constant_span"),
        )
        for record in answer["outputs"]
    )
