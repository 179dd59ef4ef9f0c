"""What the graph adds to the verdicts of single tensors: who introduced an error, who inherits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from consistency import hints, words
from consistency.localise import first_deviating
from consistency.records import ObservedLayer, ReferenceLayer, Scale
from consistency.tensors.records import TensorVerdict


def localise_tensors(
    verdicts: Sequence[TensorVerdict], profile: str, got_dtypes: dict[str, str] | None = None
) -> tuple[TensorVerdict, ...]:
    """Mark failing layers as introduced or inherited, and say what went into the first ones.

    ``got_dtypes`` name → dtype on the judged side, where it is not the reference's. Without a graph (no verdict
    has inputs) the verdicts stay as they are. ``ValueError`` on a cycle.
    """
    if not any(verdict.inputs for verdict in verdicts):
        return tuple(verdicts)
    layers = {verdict.name: _layer(verdict) for verdict in verdicts if verdict.status != "extra"}
    failing = [verdict.name for verdict in verdicts if verdict.status == "fail"]
    first = set(first_deviating(tuple(layers.values()), failing).introduced)
    spans = {verdict.name: verdict.span for verdict in verdicts}
    told = []
    for verdict in verdicts:
        if verdict.status != "fail":
            told.append(verdict)
            continue
        if verdict.name not in first:
            told.append(replace(verdict, introduced=False, reason=f"{verdict.reason}; inherited"))
            continue
        parts = [verdict.reason, "first deviating layer"]
        dtype = (got_dtypes or {}).get(verdict.name, verdict.dtype)
        if verdict.metric == "nonfinite":
            seen = ObservedLayer(verdict.name, verdict.op, dtype, verdict.shape, "")
            ranged = hints.fp16_range(layers[verdict.name], seen, profile, layers)
            parts.append(ranged or hints.internal(verdict.op, ()) or "")
        parts.append(_inputs(verdict, spans))
        told.append(replace(verdict, introduced=True, reason="; ".join(part for part in parts if part)))
    return tuple(told)


def _inputs(verdict: TensorVerdict, spans: dict[str, tuple[float, float] | None]) -> str:
    seen = [
        f"`{name}` in [{words.number(span[0])}, {words.number(span[1])}]"
        for name in verdict.inputs
        if (span := spans.get(name)) is not None
    ]
    return f"inputs seen: {', '.join(seen)}" if seen else ""


def _layer(verdict: TensorVerdict) -> ReferenceLayer:
    return ReferenceLayer(
        verdict.name, verdict.op, verdict.dtype, verdict.shape, verdict.inputs, "", Scale(0.0, 0.0, 0.0)
    )
