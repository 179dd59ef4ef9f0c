"""A device against itself: the plain pass repeated, the first run included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from consistency.judge_layer import LayerJudge
from consistency.records import LayerVerdict, ObservedLayer, PlainRun, ReferenceLayer
from consistency.thresholds import Profile


@dataclass(frozen=True)
class Repeats:
    """How the iterations of the plain pass agree.

    ``state``: ``same`` (one digest an output) · ``varies`` (all within bounds or all beyond: the outputs decide)
    · ``first_run`` (only the first differs, and is not shown to be within bounds) · ``beyond`` (varies, some
    beyond bounds) · ``unknown`` (varies, and not every tensor was kept). ``explanation`` in words, empty for
    ``same``.
    """

    state: str
    explanation: str = ""


def assess_repeats(
    profile: Profile,
    reference: Sequence[ReferenceLayer],
    outputs: Sequence[ObservedLayer],
    runs: Sequence[PlainRun],
) -> Repeats:
    """Compare the iterations with each other, and those that differ with the golden."""
    ordered = sorted(runs, key=lambda run: run.iteration)
    finals = {layer.id: layer for layer in reference if layer.final}
    varying = [name for name in finals if len({run.outputs.get(name) for run in ordered}) > 1]
    if not varying:
        return Repeats("same")
    name = varying[0]
    judge = LayerJudge(profile, {layer.id: layer for layer in reference})
    known = {out.id: out for out in outputs}
    worst = [max((_state(judge, finals[n], run, known.get(n)) for n in varying), key=_RANK.index) for run in ordered]
    distinct = len({tuple(run.outputs.get(n) for n in varying) for run in ordered})
    text = f"output `{name}` has {distinct} different results in {len(ordered)} runs"
    first_only = len(ordered) > 2 and distinct == 2 and _all_equal(ordered[1:], varying)
    if first_only:
        text = f"first-run only: output `{name}` of iteration {ordered[0].iteration} differs from all later ones"
    if set(worst) == {"pass"}:
        return Repeats("varies", f"{text}, each within bounds")
    if first_only and worst[0] != "pass" and "fail" not in worst[1:] and worst[0] != worst[1]:
        shown = "is beyond bounds" if worst[0] == "fail" else "was not kept, so nothing shows it within bounds"
        return Repeats("first_run", f"{text} and {shown}")
    if "fail" in worst and set(worst) != {"fail"}:
        return Repeats("beyond", f"{text}; {worst.count('fail')} of them beyond bounds")
    if "unknown" in worst:
        return Repeats(
            "unknown", f"{text}; {worst.count('unknown')} were not kept, so nothing shows them within bounds"
        )
    return Repeats("varies", f"{text}, all beyond bounds")


_RANK = ("pass", "unknown", "fail")


def _state(judge: LayerJudge, reference: ReferenceLayer, run: PlainRun, known: ObservedLayer | None) -> str:
    digest = run.outputs.get(reference.id)
    if digest is None:
        return "fail"
    if known is None or known.digest != digest:
        stats = run.stats.get(reference.id)
        like = known or ObservedLayer(reference.id, reference.op, reference.dtype, reference.shape, digest)
        # What another iteration held says nothing about this one; its own statistics count non-finite values.
        known = replace(like, digest=digest, stats=stats, nonfinite=reference.nonfinite)
    verdict: LayerVerdict = judge.judge(reference, 0, known)
    return verdict.status if verdict.status in _RANK else "unknown"


def _all_equal(runs: Sequence[PlainRun], names: Sequence[str]) -> bool:
    return len({tuple(run.outputs.get(name) for name in names) for run in runs}) == 1
