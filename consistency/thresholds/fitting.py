"""Fit a noise floor to runs of healthy engines, at a stated rate of false alarms a run on a model never seen.

Layers of one run, runs of one model and models of one family are alike; only families are independent draws. So:

1. Each operator (those that hand on their input: together, over all layers), dtype and backend has the largest error
   that any family showed, freed of its growth with the reduction length (least squares on logarithms, between 0 and 1).
   What the base profile fails teaches nothing, nor what passes by rounding or ``atol``.
2. Each family is held out: its **excess** is the most by which a layer of any of its runs is beyond the largest error
   of the other families. One number a family holds all layers, runs and metrics of it together, so that nothing has to
   be said about how they depend on one another.
3. The logarithms of the excesses are taken as a sample of a normal distribution; the **margin** is the bound that the
   excess of one more family exceeds with the stated probability (a prediction bound: Student's t with one degree fewer
   than families, times sqrt(1 + 1/n)). A run of a new model is blamed with at most that probability.
4. The bound of an operator is its largest error times the margin, within the base profile's, which it never widens. An
   operator that fewer than five families have keeps the base's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev

from consistency.proportion import student, student_beyond
from consistency.records import Scale, Stats
from consistency.thresholds.learned import CARRIED, LearnedRule, group_of, learned_profile
from consistency.thresholds.profile import FLOAT_TYPES, IntegerRule, Profile, effective_scale
from consistency.thresholds.rules import judge

#: An operator of fewer families says nothing about the next.
LEAST_FAMILIES = 5
#: The growth with the length is fitted where an operator has as many layers, of at least three lengths.
LEAST_LAYERS, LEAST_LENGTHS = 12, 3

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Observation:
    """One layer of one healthy run beside the golden.

    ``family``: models of one make, held out together; ``run`` names model, engine and input; ``dtype`` is the golden's,
    ``length`` the reduction length (0: unknown).
    """

    family: str
    model: str
    run: str
    layer: str
    op: str
    dtype: str
    backend: str
    length: int
    stats: Stats
    scale: Scale

    @property
    def key(self) -> Key:
        """The operator as it is learned, dtype and backend."""
        return group_of(self.op), self.dtype, self.backend


@dataclass(frozen=True)
class HeldOut:
    """One family judged by what the others taught: its runs, those blamed, and of these those the base blames too."""

    family: str
    models: tuple[str, ...]
    runs: int
    blamed: int
    by_base: int


@dataclass(frozen=True)
class Learned:
    """``margin`` is None where too few families are there for one; then nothing is learned."""

    rules: tuple[LearnedRule, ...]
    margin: float | None
    excesses: Mapping[str, float]


def learn(observations: Iterable[Observation], false_alarms: float, base: Profile) -> Learned:
    """The rules, by operator. ``false_alarms`` is the rate a run, in 0 … 1; ``ValueError`` for one that is none."""
    return _learn([_seen(entry, base) for entry in observations], false_alarms, base)


def held_out(observations: Sequence[Observation], false_alarms: float, base: Profile) -> tuple[HeldOut, ...]:
    """Each family judged, by every rule of the profile, with what all others taught."""
    seen = [_seen(entry, base) for entry in observations]
    outcomes = []
    for family in sorted({entry.family for entry in observations}):
        own = [error for error in seen if error.entry.family == family]
        others = _learn([error for error in seen if error.entry.family != family], false_alarms, base)
        blamed = blamed_runs((error.entry for error in own), learned_profile("held-out", others.rules, base))
        by_base = {error.entry.run for error in own if not error.fine}
        models, runs = {error.entry.model for error in own}, {error.entry.run for error in own}
        outcomes.append(HeldOut(family, tuple(sorted(models)), len(runs), len(blamed), len(blamed & by_base)))
    return tuple(outcomes)


def blamed_runs(observations: Iterable[Observation], profile: Profile) -> set[str]:
    """The runs in which some layer fails some rule."""
    return {entry.run for entry in observations if not _passes(entry, profile)}


def _passes(entry: Observation, profile: Profile) -> bool:
    if not entry.stats.differing:
        return True
    bounds = profile.bounds(entry.op, entry.dtype, entry.scale, entry.length, entry.backend)
    return bounds is None or all(outcome.passed for outcome in judge(entry.stats, bounds))


@dataclass(frozen=True)
class _Seen:
    """``fine``: the base passes it. ``size`` is the error in the unit of its rule, 0 where it teaches nothing."""

    entry: Observation
    fine: bool
    size: float


@dataclass(frozen=True)
class _Group:
    """All errors of one operator, dtype and backend; families without an error count as families."""

    key: Key
    families: frozenset[str]
    errors: tuple[_Seen, ...]
    beyond: int

    def length(self, error: _Seen) -> int:
        """The reduction length that counts: what is handed on has that of many operators."""
        return 1 if self.key[0] == CARRIED else error.entry.length

    @cached_property
    def worst(self) -> tuple[_Seen, ...]:
        """The largest error of each layer of each model."""
        found: dict[tuple[str, str], _Seen] = {}
        for error in self.errors:
            place = error.entry.model, error.entry.layer
            if place not in found or error.size > found[place].size:
                found[place] = error
        return tuple(found.values())

    @cached_property
    def growth(self) -> float:
        """The power of the reduction length with which errors grow, in 0 … 1."""
        points = [(math.log(self.length(error)), math.log(error.size)) for error in self.worst if self.length(error)]
        if len(points) < LEAST_LAYERS or len({x for x, _ in points}) < LEAST_LENGTHS:
            return 0.0
        middle_x, middle_y = fmean(x for x, _ in points), fmean(y for _, y in points)
        slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)
        return min(1.0, max(0.0, round(slope, 2)))

    @cached_property
    def by_family(self) -> Mapping[str, float]:
        """The largest error of each family that has one, at reduction length 1."""
        found: dict[str, float] = {}
        for error in self.worst:
            family = error.entry.family
            found[family] = max(found.get(family, 0.0), error.size / max(1, self.length(error)) ** self.growth)
        return found

    @property
    def largest(self) -> float:
        return max(self.by_family.values(), default=0.0)


def _seen(entry: Observation, base: Profile) -> _Seen:
    fine = _passes(entry, base)
    return _Seen(entry, fine, _size(entry, base) if fine else 0.0)


def _learn(seen: Iterable[_Seen], false_alarms: float, base: Profile) -> Learned:
    if not 0.0 < false_alarms < 1.0:
        raise ValueError(f"a rate of false alarms lies between 0 and 1, not at {false_alarms}")
    groups = _groups(seen)
    excesses = _excesses(groups)
    if len(excesses) < LEAST_FAMILIES:
        return Learned((), None, excesses)
    margin = _Margin.of(list(excesses.values()), false_alarms)
    known = [group for group in groups if len(group.families) >= LEAST_FAMILIES and group.largest > 0.0]
    return Learned(tuple(_rule(group, margin, base) for group in known), margin.factor, excesses)


def _groups(seen: Iterable[_Seen]) -> list[_Group]:
    errors: dict[Key, list[_Seen]] = defaultdict(list)
    families: dict[Key, set[str]] = defaultdict(set)
    beyond: dict[Key, int] = defaultdict(int)
    for error in seen:
        entry = error.entry
        for key in {entry.key, (CARRIED, entry.dtype, entry.backend)}:
            families[key].add(entry.family)
            beyond[key] += not error.fine
            if error.size > 0.0:
                errors[key].append(error)
    return [_Group(key, frozenset(families[key]), tuple(errors[key]), beyond[key]) for key in sorted(families)]


def _size(entry: Observation, base: Profile) -> float:
    """The error in the unit of its rule: of the effective scale, or the share of differing elements of integers."""
    if entry.dtype not in FLOAT_TYPES:
        return entry.stats.differing / entry.stats.count if entry.stats.count else 0.0
    rule, size = base.by_op.get(entry.op, base.floats), effective_scale(entry.scale)
    rounding = rule.rounding * entry.scale.max_abs
    unseen = max(rule.atol, rounding if rounding <= size else 0.0)
    return entry.stats.max_abs / size if size > 0.0 and entry.stats.max_abs > unseen else 0.0


def _excesses(groups: Iterable[_Group]) -> dict[str, float]:
    """By how much each family is beyond the largest of the others, over all its layers."""
    found: dict[str, float] = {}
    for group in groups:
        if len(group.families) < LEAST_FAMILIES:
            continue
        for family in group.families:
            others = max((size for name, size in group.by_family.items() if name != family), default=0.0)
            own = group.by_family.get(family, 0.0)
            if own > 0.0 and others > 0.0:
                found[family] = max(found.get(family, 0.0), own / others)
    return found


@dataclass(frozen=True)
class _Margin:
    """The prediction bound for the excess of one more family; ``middle`` and ``spread`` are of its logarithm."""

    middle: float
    spread: float
    freedom: int
    rate: float

    @classmethod
    def of(cls, excesses: Sequence[float], rate: float) -> _Margin:
        logs = [math.log(excess) for excess in excesses]
        return cls(fmean(logs), stdev(logs) * math.sqrt(1 + 1 / len(logs)), len(logs) - 1, rate)

    @property
    def factor(self) -> float:
        """By which the largest error is multiplied; at least 1."""
        return max(1.0, math.exp(self.middle + student(max(0.5, 1.0 - self.rate), self.freedom) * self.spread))

    def rate_of(self, factor: float) -> float | None:
        """The rate at which the margin would be ``factor``; None where that is more than one half, or below 1."""
        above = math.log(factor) - self.middle if factor >= 1.0 else -1.0
        if above < 0.0:
            return None
        return student_beyond(above / self.spread, self.freedom) if self.spread else 0.0


def _rule(group: _Group, margin: _Margin, base: Profile) -> LearnedRule:
    op, dtype, backend = group.key
    integers = base.integers.get(dtype, base.other_integers)
    floating = dtype in FLOAT_TYPES
    ceiling = base.by_op.get(op, base.floats).rtol if floating else integers.max_differing
    longest = max(group.length(error) for error in group.errors)
    bound = margin.factor * group.largest
    rule = LearnedRule(
        op=op,
        dtype=dtype,
        backend=backend,
        longest=longest,
        layers=len(group.worst),
        families=len(group.families),
        largest=max(error.size for error in group.errors),
        beyond=group.beyond,
        fitted=_rounded_up(bound * (max(1, longest) ** group.growth if floating else 1.0)),
        sharper_above=margin.rate_of(ceiling / group.largest),
    )
    bound = _rounded_up(bound)
    if floating:
        if bound >= ceiling:
            return replace(rule, rtol=ceiling, capped=True)
        return replace(rule, rtol=bound, growth=group.growth)
    return replace(
        rule,
        integer=IntegerRule(integers.max_lsb, min(bound, ceiling)),
        largest_lsb=int(max(error.entry.stats.max_abs for error in group.errors)),
        capped=bound >= ceiling,
    )


def _rounded_up(value: float) -> float:
    """To two digits, so that a review sees numbers and not noise."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.1e}")
