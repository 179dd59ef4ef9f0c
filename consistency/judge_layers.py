"""The verdicts of all expected layers of one case: paired, judged, and localised on the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from consistency.alone import attach, judge_alone
from consistency.fed import fed_alike
from consistency.judge_layer import UNMEASURED, LayerJudge, unseen
from consistency.localise import Frontier, frontier_of, topological
from consistency.pairing import Pairing, pair, reused_buffers
from consistency.records import Coverage, LayerVerdict, ObservedLayer, ReferenceLayer
from consistency.thresholds import Profile


@dataclass(frozen=True)
class JudgedLayers:
    """Verdicts in topological order; ``frontier`` of the failing ones."""

    layers: tuple[LayerVerdict, ...]
    frontier: Frontier
    pairing: Pairing


def judge_layers(
    profile: Profile,
    reference: Sequence[ReferenceLayer],
    observed: Sequence[ObservedLayer],
    outputs: Sequence[ObservedLayer],
    level: int,
    base: Mapping[str, str],
    alone: Sequence[ObservedLayer] = (),
) -> JudgedLayers:
    """Judge every layer of ``reference``. ``base`` maps ids to the digests of the commit before, ``alone`` are
    layers that ran alone on the golden's inputs.

    A final output that the instrumented pass does not list is taken from the plain pass (``outputs``); at
    contract level 0 that is all there is, and the rest is not observable.
    """
    order = topological(reference)
    if level == 0:
        observed = ()
    spans = {(out.id, out.digest): out.constant_span for out in outputs if out.constant_span is not None}
    if spans:  # the same bits, of which the plain run's are here
        observed = [replace(layer, constant_span=spans.get((layer.id, layer.digest))) for layer in observed]
    listed = {layer.id for layer in observed} | {name for layer in observed for name in layer.covers}
    finals = {layer.id for layer in order if layer.final}
    seen = (*observed, *(out for out in outputs if out.id in finals and out.id not in listed))
    pairing = pair(order, seen)
    judge = LayerJudge(profile, {layer.id: layer for layer in order})
    verdicts = [_verdict(judge, layer, index, pairing, level) for index, layer in enumerate(order)]
    verdicts = _without_reused(order, verdicts, pairing)
    frontier = frontier_of(order, {verdict.id for verdict in verdicts if verdict.status == "fail"})
    marked = _marked(verdicts, frontier, base)
    own = fed_alike(profile, order, marked, pairing) | judge_alone(profile, order, alone)
    marked = _behind(order, marked, frontier)
    return JudgedLayers(attach(order, marked, frontier, own) if own else marked, frontier, pairing)


def judge_outputs(
    profile: Profile, reference: Sequence[ReferenceLayer], outputs: Sequence[ObservedLayer], base: Mapping[str, str]
) -> JudgedLayers:
    """Judge the final outputs of the plain pass; an absent one is ``missing``."""
    order = topological(reference)
    finals = [(index, layer) for index, layer in enumerate(order) if layer.final]
    pairing = pair([layer for _, layer in finals], outputs)
    judge = LayerJudge(profile, {layer.id: layer for layer in order})
    verdicts = [_verdict(judge, layer, index, pairing, 0) for index, layer in finals]
    frontier = frontier_of(order, {verdict.id for verdict in verdicts if verdict.status == "fail"})
    return JudgedLayers(_marked(verdicts, frontier, base), frontier, pairing)


def coverage(layers: Sequence[LayerVerdict]) -> Coverage:
    """How many expected layers were compared and how many were not, by kind."""
    count = {status: sum(1 for layer in layers if layer.status == status) for status in _STATUSES}
    return Coverage(
        expected=len(layers),
        paired=count["pass"] + count["fail"],
        not_observable=count["not_observable"],
        missing=count["missing"],
        not_compared=count["not_compared"],
    )


_STATUSES = ("pass", "fail", "not_observable", "missing", "not_compared")


def _verdict(judge: LayerJudge, layer: ReferenceLayer, index: int, pairing: Pairing, level: int) -> LayerVerdict:
    observed = pairing.pairs.get(layer.id)
    if observed is not None:
        return judge.judge(layer, index, observed)
    if layer.id in pairing.ambiguous:
        return unseen(layer, index, "not_compared", "reported more than once; which one is meant is unknown")
    if layer.id in pairing.covered:
        return unseen(layer, index, "not_observable", f"fused into `{pairing.covered[layer.id]}`")
    if level == 0 and not layer.final:
        return unseen(layer, index, "not_observable", "a runner of contract level 0 shows final outputs only")
    return unseen(layer, index, "missing", "expected, and neither reported nor covered by another layer")


def _without_reused(
    order: Sequence[ReferenceLayer], verdicts: list[LayerVerdict], pairing: Pairing
) -> list[LayerVerdict]:
    """Failing layers that show a later layer's bytes are not observable; they do not diverge."""
    failing = frozenset(verdict.id for verdict in verdicts if verdict.status == "fail")
    reused = reused_buffers(order, pairing.pairs, failing)
    return [
        replace(
            verdict,
            status="not_observable",
            reason=f"holds the bytes of the later layer `{reused[verdict.id]}`: its buffer was reused before capture",
        )
        if verdict.id in reused
        else verdict
        for verdict in verdicts
    ]


def _behind(
    order: Sequence[ReferenceLayer], verdicts: tuple[LayerVerdict, ...], frontier: Frontier
) -> tuple[LayerVerdict, ...]:
    """Says of layers that were not measured which failing layer they lie behind."""
    bare = {verdict.id for verdict in verdicts if verdict.status == "not_compared" and verdict.reason == UNMEASURED}
    if not bare or not frontier.introduced:
        return verdicts
    source: dict[str, str] = {name: name for name in frontier.introduced}
    for layer in order:
        above = next((source[name] for name in layer.inputs if name in source), None)
        if above is not None:
            source.setdefault(layer.id, above)
    return tuple(
        replace(
            verdict,
            behind=source[verdict.id],
            reason=f"behind `{source[verdict.id]}`: it has other bits too, and was not measured",
        )
        if verdict.id in bare and verdict.id in source
        else verdict
        for verdict in verdicts
    )


def _marked(verdicts: Sequence[LayerVerdict], frontier: Frontier, base: Mapping[str, str]) -> tuple[LayerVerdict, ...]:
    """Every verdict with what the graph and base say of it; most have nothing to add, and are kept as they are."""
    introduced = set(frontier.introduced)
    return tuple(
        _with(verdict, introduced=verdict.id in introduced, base=base.get(verdict.id))
        if verdict.id in introduced or verdict.id in base
        else verdict
        for verdict in verdicts
    )


def _with(verdict: LayerVerdict, *, introduced: bool, base: str | None) -> LayerVerdict:
    changed = None if base is None or verdict.observed is None else verdict.observed.digest != base
    return replace(verdict, introduced=introduced, base_digest=base, changed=changed)
