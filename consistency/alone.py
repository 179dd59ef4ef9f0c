"""Layers alone on a reference's inputs: what a layer introduces, apart from what it inherits.

A layer that fails in the whole model and passes alone only carries on what reached it. A layer that fails alone is a
culprit wherever it stands, behind other failures too. Where no layer alone explains a failure the error builds up
over several layers, each within its bound; the largest contributions are named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from consistency import words
from consistency.judge_layer import LayerJudge
from consistency.localise import Frontier
from consistency.records import AloneVerdict, LayerVerdict, Matched, ObservedLayer, ReferenceLayer
from consistency.thresholds import Profile

#: How many contributions to an error that builds up are named.
NAMED = 3


def judge_alone(
    profile: Profile, order: Sequence[ReferenceLayer], alone: Sequence[ObservedLayer]
) -> dict[str, AloneVerdict]:
    """The verdict of every layer that ran alone, by id. Layers the model lacks are left out.

    ``alone`` ran on the golden's inputs; with a bit-exact profile on canonical's, whose bits they should have given.
    """
    on: Matched = "canonical" if profile.bitexact else "golden"
    judge = LayerJudge(profile, {layer.id: layer for layer in order})
    by_id = {layer.id: (index, layer) for index, layer in enumerate(order)}
    verdicts = {}
    for observed in alone:
        if observed.id not in by_id:
            continue
        index, reference = by_id[observed.id]
        found = judge.judge(reference, index, observed)
        verdicts[observed.id] = AloneVerdict(
            found.status, found.metrics, found.nonfinite, found.metric, found.measured, found.bound, found.reason, on
        )
    return verdicts


def culprits(order: Sequence[ReferenceLayer], frontier: Frontier, alone: Mapping[str, AloneVerdict]) -> tuple[str, ...]:
    """The layers to blame, in topological order.

    Every layer that fails alone, and every first deviating layer that did not run alone: nothing acquits it.
    """
    failing = {name for name, verdict in alone.items() if verdict.status == "fail"}
    unproved = {name for name in frontier.introduced if name not in alone or alone[name].status == "not_compared"}
    return tuple(layer.id for layer in order if layer.id in failing | unproved)


def attach(
    order: Sequence[ReferenceLayer],
    verdicts: Sequence[LayerVerdict],
    frontier: Frontier,
    alone: Mapping[str, AloneVerdict],
) -> tuple[LayerVerdict, ...]:
    """The verdicts with who introduced and who inherits, and what each layer gave alone."""
    healthy = {verdict.id for verdict in verdicts if verdict.status == "pass"}
    blamed = set(culprits(order, frontier, alone)) - healthy
    inputs = {layer.id: layer.inputs for layer in order}
    told = []
    for verdict in verdicts:
        own = alone.get(verdict.id)
        marked = replace(verdict, introduced=verdict.id in blamed, alone=own)
        if own is not None and (verdict.status == "fail" or verdict.id in blamed):
            marked = replace(marked, reason=f"{verdict.reason}; {_told(verdict.id, own, frontier, inputs, alone)}")
        told.append(marked)
    return tuple(told)


def _told(
    name: str,
    own: AloneVerdict,
    frontier: Frontier,
    inputs: Mapping[str, Sequence[str]],
    alone: Mapping[str, AloneVerdict],
) -> str:
    """What a failing layer is told by its run alone."""
    whose = "the golden's" if own.on == "golden" else "canonical's"
    if not own.ran:
        return f"its inputs have {whose} bits: it introduces this itself"
    if own.status == "fail":
        behind = name in frontier.inherited
        text = f"alone on {whose} inputs it fails too{_own_error(own)}: it introduces this itself"
        return f"{text}, besides what it inherits" if behind else text
    if own.status != "pass":
        return f"alone on {whose} inputs it could not be compared: {own.reason}"
    if own.on == "canonical":
        return "alone on canonical's inputs it has canonical's bits: it only inherits"
    text = f"alone on the golden's inputs it is within its bound{_own_error(own)}: it only inherits"
    if name not in frontier.introduced:
        return text
    return f"{text}, and no layer before it is beyond its bound{_contributions(name, inputs, alone)}"


def _own_error(own: AloneVerdict) -> str:
    if own.nonfinite.total:
        return f" ({words.nonfinite(own.nonfinite)})"
    if own.metrics is None or own.metrics.max_abs is None or own.bound is None:
        return ""
    return f" (introduced {words.number(own.metrics.max_abs)}, bound {words.number(_largest(own))})"


def _contributions(name: str, inputs: Mapping[str, Sequence[str]], alone: Mapping[str, AloneVerdict]) -> str:
    """The layers before ``name`` (and itself) that use most of their bound alone."""
    seen = {name} | ancestors(name, inputs)
    shares = {layer: share for layer in seen if layer in alone and (share := _share(alone[layer])) > 0}
    largest = sorted(shares, key=lambda layer: (-shares[layer], layer))[:NAMED]
    if not largest:
        return ": the error builds up over the layers before it"
    parts = ", ".join(f"`{layer}` {100 * shares[layer]:.0f} %" for layer in largest)
    return f": the error builds up; of their bounds alone use {parts}"


def ancestors(name: str, inputs: Mapping[str, Sequence[str]]) -> set[str]:
    """All layers that ``name`` depends on."""
    seen: set[str] = set()
    stack = list(inputs.get(name, ()))
    while stack:
        layer = stack.pop()
        if layer in inputs and layer not in seen:
            seen.add(layer)
            stack.extend(inputs[layer])
    return seen


def _share(own: AloneVerdict) -> float:
    """How much of its bound a layer uses alone; 0 where there is no number."""
    limit = _largest(own)
    if own.metrics is None or own.metrics.max_abs is None or not limit:
        return 0.0
    return own.metrics.max_abs / limit


def _largest(own: AloneVerdict) -> float | None:
    """The bound of the largest difference, whichever rule decided."""
    return own.bound if own.metric == "max_abs" else None


def wanted(
    order: Sequence[ReferenceLayer],
    verdicts: Sequence[LayerVerdict],
    outputs: Sequence[LayerVerdict],
    proved: Collection[str] = (),
) -> tuple[str, ...]:
    """The layers worth running alone, most telling first; none when nothing fails, none that is ``proved`` already.

    The first deviating layers, what they read (an error may have built up there), then the failing layers behind
    them: whether one of those introduces an error of its own is hidden by what it inherits.
    """
    failing = [layer for layer in (*verdicts, *outputs) if layer.status == "fail" and layer.id not in proved]
    first = [layer.id for layer in failing if layer.introduced]
    known = {layer.id: layer for layer in order}
    before = [name for layer in first for name in known[layer].inputs if name in known]
    return tuple(dict.fromkeys([*first, *before, *(layer.id for layer in failing)]))
