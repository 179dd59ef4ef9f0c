"""Judging the statistics of one layer by its bounds; each rule keeps what it measured and what would have passed."""

from __future__ import annotations

import math

from consistency.metrics.similarity import cosine, norm_ratio
from consistency.records import RuleOutcome, Stats
from consistency.thresholds.profile import Bounds


def judge(stats: Stats, bounds: Bounds) -> tuple[RuleOutcome, ...]:
    """One outcome a rule, in the order they are reported: non-finite values first.

    Comparisons are written so that a NaN never passes.
    """
    outcomes = [
        _at_most("nonfinite_mismatch", float(stats.nonfinite_mismatch), 0.0, curable=False),
        _at_most("max_abs", stats.max_abs, bounds.max_abs),
    ]
    if bounds.max_differing is not None and stats.count:
        outcomes.append(_at_most("differing", stats.differing / stats.count, bounds.max_differing))
    if not stats.max_abs <= bounds.atol:
        outcomes += _direction(stats, bounds)
    return tuple(outcomes)


def passing_bounds(stats: Stats, bounds: Bounds) -> Bounds:
    """The tightest bounds that pass ``stats``, no tighter than ``bounds``. Non-finite values have none."""
    would = {
        outcome.metric: outcome.would_pass
        for outcome in judge(stats, bounds)
        if not outcome.passed and outcome.would_pass is not None
    }
    return Bounds(
        max_abs=would.get("max_abs", bounds.max_abs),
        max_differing=would.get("differing", bounds.max_differing),
        min_cosine=would.get("cosine", bounds.min_cosine),
        max_norm_drift=would.get("norm_drift", bounds.max_norm_drift),
        atol=bounds.atol,
    )


def _direction(stats: Stats, bounds: Bounds) -> list[RuleOutcome]:
    """Cosine and norm ratio where they are defined; against an all-zero golden ``max_abs`` alone decides."""
    outcomes = []
    angle, ratio = cosine(stats), norm_ratio(stats)
    if bounds.min_cosine is not None and angle is not None:
        outcomes.append(RuleOutcome("cosine", angle, bounds.min_cosine, angle, angle >= bounds.min_cosine))
    if bounds.max_norm_drift is not None and ratio is not None:
        outcomes.append(_at_most("norm_drift", abs(ratio - 1.0), bounds.max_norm_drift))
    return outcomes


def _at_most(metric: str, measured: float, bound: float, *, curable: bool = True) -> RuleOutcome:
    value = measured if math.isfinite(measured) else None
    return RuleOutcome(metric, value, bound, value if curable else None, passed=measured <= bound)
