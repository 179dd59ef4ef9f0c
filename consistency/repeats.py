"""A device against itself: the plain pass repeated, the first run included, and with another number of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from consistency.judge_layer import LayerJudge
from consistency.records import LayerVerdict, ObservedLayer, PlainRun, ReferenceLayer
from consistency.thresholds import Profile
from consistency.words import number


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
    noise: Mapping[str, float] | None = None,
) -> Repeats:
    """Compare the iterations with each other, and those that differ with the golden.

    ``noise`` maps outputs to how far apart the runs are, where that was measured.
    """
    every = sorted(runs, key=lambda run: run.iteration)
    finals = {layer.id: layer for layer in reference if layer.final}
    varying = [name for name in finals if len({run.outputs.get(name) for run in every}) > 1]
    if not varying:
        return Repeats("same")
    name = varying[0]
    judge = LayerJudge(profile, {layer.id: layer for layer in reference})
    known = {out.id: out for out in outputs}
    worst = [max((_state(judge, finals[n], run, known.get(n)) for n in varying), key=_RANK.index) for run in every]
    ordered = [run for run in every if run.threads == every[0].threads]
    first_only = (
        len(ordered) > 2 and len(_distinct(ordered, varying)) == 2 and len(_distinct(ordered[1:], varying)) == 1
    )
    text = _text(name, ordered, varying) + _with_threads(every, ordered, varying)
    if noise and name in noise:
        text += f", {number(noise[name])} apart at most: its own noise"
    if set(worst) == {"pass"}:
        return Repeats("varies", f"{text}; each within bounds")
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


def _text(name: str, ordered: Sequence[PlainRun], varying: Sequence[str]) -> str:
    """What varies between the runs with one number of threads."""
    distinct = len(_distinct(ordered, varying))
    if distinct == 1:
        return f"output `{name}` is the same in {len(ordered)} runs"
    if distinct == 2 and len(ordered) > 2 and len(_distinct(ordered[1:], varying)) == 1:
        return f"first-run only: output `{name}` of iteration {ordered[0].iteration} differs from all later ones"
    return f"output `{name}` has {distinct} different results in {len(ordered)} runs"


def _with_threads(every: Sequence[PlainRun], ordered: Sequence[PlainRun], varying: Sequence[str]) -> str:
    """What another number of threads changes; empty where nobody tried one."""
    others = [run for run in every if run.threads != every[0].threads]
    if not others:
        return ""
    count = f"{others[0].threads} thread{'s' if others[0].threads > 1 else ''}"
    if len(_distinct(ordered, varying)) == 1:
        return f" and another one with {count}"
    if len(_distinct(others, varying)) > 1:
        return f" (it varies with {count} too)"
    return f" (with {count} it repeats itself)" if len(others) > 1 else ""


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


def _distinct(runs: Sequence[PlainRun], names: Sequence[str]) -> set[tuple[str | None, ...]]:
    return {tuple(run.outputs.get(name) for name in names) for run in runs}
