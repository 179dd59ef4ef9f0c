"""A noise floor fitted to runs of healthy engines: a bound an operator, at a stated rate of false alarms a run.

The error of a layer, of its effective scale, is taken as log-normal within one operator; the bound is the quantile that
all layers of a run together exceed with the stated probability (Bonferroni: the rate is divided by their number), and
never less than eight times the largest error seen. An operator with few observations keeps the rule of the base
profile, and none gets a wider bound than that: evidence may sharpen a profile; loosening one is for people.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean, pstdev

from consistency.thresholds.profile import Profile

#: Fewer observations of an operator than this say nothing about a tail.
ENOUGH = 30
#: Models differ from one another by more than runs of one model do.
MARGIN = 8.0


@dataclass(frozen=True)
class Observation:
    """One layer of one healthy run: its largest error, of its effective scale; 0 where the base's ``atol`` passes it.

    ``run`` names model, engine and input.
    """

    model: str
    run: str
    op: str
    error: float


@dataclass(frozen=True)
class OpFloor:
    """What was learned of one operator in float32. ``rtol`` replaces that of the base profile."""

    op: str
    rtol: float
    observations: int
    models: int
    largest: float


@dataclass(frozen=True)
class HeldOut:
    """One model judged by what was learned from the others."""

    model: str
    runs: int
    false_alarms: int


def learn(observations: Iterable[Observation], false_alarms: float, base: Profile) -> tuple[OpFloor, ...]:
    """A floor for every operator with enough evidence, by name. ``false_alarms`` is the rate a run, in 0 … 1.

    Observations without any error count as runs but not as noise. ``ValueError`` for a rate that is none.
    """
    if not 0.0 < false_alarms < 1.0:
        raise ValueError(f"a rate of false alarms lies between 0 and 1, not at {false_alarms}")
    seen = [entry for entry in observations if entry.error > 0.0 and math.isfinite(entry.error)]
    deepest = max(_layers_a_run(seen), default=1)
    normal = NormalDist().inv_cdf(1.0 - false_alarms / deepest)
    floors = []
    for op in sorted({entry.op for entry in seen}):
        own = [entry for entry in seen if entry.op == op]
        if len(own) >= ENOUGH:
            floors.append(_floor(op, own, normal, base.by_op.get(op, base.floats).rtol))
    return tuple(floors)


def learned_profile(name: str, floors: Iterable[OpFloor], base: Profile) -> Profile:
    """``base`` with the learned bounds in place of its own."""
    rules = {floor.op: replace(base.by_op.get(floor.op, base.floats), rtol=floor.rtol) for floor in floors}
    return replace(base, name=name, by_op={**base.by_op, **rules})


def held_out(observations: Sequence[Observation], false_alarms: float, base: Profile) -> tuple[HeldOut, ...]:
    """Each model judged by the floors of all others: how many of its runs have a layer beyond its bound."""
    outcomes = []
    for model in sorted({entry.model for entry in observations}):
        floors = learn((entry for entry in observations if entry.model != model), false_alarms, base)
        bounds = {floor.op: floor.rtol for floor in floors}
        own = [entry for entry in observations if entry.model == model]
        blamed = {
            entry.run for entry in own if entry.error > bounds.get(entry.op, base.by_op.get(entry.op, base.floats).rtol)
        }
        outcomes.append(HeldOut(model, len({entry.run for entry in own}), len(blamed)))
    return tuple(outcomes)


def _floor(op: str, own: Sequence[Observation], normal: float, most: float) -> OpFloor:
    logs = [math.log(entry.error) for entry in own]
    largest = max(entry.error for entry in own)
    fitted = math.exp(fmean(logs) + normal * pstdev(logs))
    bound = min(most, _rounded_up(max(fitted, MARGIN * largest)))
    return OpFloor(op, bound, len(own), len({entry.model for entry in own}), largest)


def _rounded_up(value: float) -> float:
    """To two digits, so that a review sees numbers and not noise."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.1e}")


def _layers_a_run(seen: Sequence[Observation]) -> list[int]:
    counts: dict[str, int] = {}
    for entry in seen:
        counts[entry.run] = counts.get(entry.run, 0) + 1
    return list(counts.values())
