"""All metrics of one layer from its sums, with a reason for each that is not defined."""

from __future__ import annotations

import math
from dataclasses import replace

from consistency.metrics.error import rmse, scaled, sqnr_db
from consistency.metrics.similarity import cosine, norm_ratio
from consistency.records import Metrics, Scale, Stats


def metrics_from_stats(stats: Stats, scale: Scale) -> Metrics:
    """``Metrics`` of one layer; ``scale`` is the golden's. Nothing in the result is NaN or infinite.

    When every element is non-finite on one side there is no finite pair, and no error is printed as if
    there were one.
    """
    if 0 < stats.count == stats.nonfinite_mismatch:
        return Metrics(
            over_bound=stats.over_bound,
            differing=stats.differing,
            count=stats.count,
            reason="no pair of finite elements to measure",
        )
    max_abs = stats.max_abs if math.isfinite(stats.max_abs) else None
    worst = stats.worst_index if stats.worst_index >= 0 else None
    metrics = Metrics(
        max_abs=max_abs,
        scaled_rms=None if max_abs is None else scaled(max_abs, scale.rms),
        scaled_p999=None if max_abs is None else scaled(max_abs, scale.p999),
        rmse=rmse(stats),
        sqnr_db=sqnr_db(stats),
        cosine=cosine(stats),
        norm_ratio=norm_ratio(stats),
        over_bound=stats.over_bound,
        differing=stats.differing,
        count=stats.count,
        worst_index=worst,
        worst_got=_finite(stats.worst_got) if worst is not None else None,
        worst_ref=_finite(stats.worst_ref) if worst is not None else None,
    )
    reason = _undefined(metrics, stats)
    return replace(metrics, reason=reason) if reason else metrics


def _undefined(metrics: Metrics, stats: Stats) -> str:
    """Why metrics are absent, in words; empty when all are defined."""
    if stats.count == 0:
        return "empty tensor"
    reasons = []
    if stats.nonfinite_mismatch:
        reasons.append(f"{stats.nonfinite_mismatch} elements are non-finite on one side and left out of the sums")
    if metrics.max_abs is None:
        reasons.append("max_abs: the difference overflows float64")
    if metrics.scaled_rms is None or metrics.scaled_p999 is None:
        reasons.append("scaled error: the golden has no scale")
    if metrics.sqnr_db is None:
        reasons.append("sqnr_db: infinite, " + ("no error" if stats.sum_sq_diff == 0.0 else "no signal or overflow"))
    if metrics.cosine is None:
        reasons.append("cosine: one side has no direction")
    if metrics.norm_ratio is None:
        reasons.append("norm_ratio: the golden has no length")
    return "; ".join(reasons)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
