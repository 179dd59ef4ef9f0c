"""Size of the error: maximum, layer-scaled, RMSE and SQNR."""

from __future__ import annotations

import math

from consistency.records import Stats


def scaled(max_abs: float, scale: float) -> float | None:
    """``max_abs / scale``; no error is 0 whatever the scale, an error against a zero scale has no ratio."""
    if max_abs == 0.0:
        return 0.0
    return _finite(max_abs / scale) if scale > 0.0 else None


def rmse(stats: Stats) -> float | None:
    """Root of the mean square error over all elements; 0 for an empty tensor."""
    if stats.count == 0:
        return 0.0
    return _finite(math.sqrt(stats.sum_sq_diff / stats.count)) if stats.sum_sq_diff >= 0.0 else None


def sqnr_db(stats: Stats) -> float | None:
    """``10 log10(sum ref² / sum (got - ref)²)`` in dB; ``None`` where it is infinite (no error, or no signal)."""
    if not (stats.sum_sq_diff > 0.0 and stats.sum_sq_ref > 0.0):
        return None
    if not (math.isfinite(stats.sum_sq_diff) and math.isfinite(stats.sum_sq_ref)):
        return None
    return 10.0 * (math.log10(stats.sum_sq_ref) - math.log10(stats.sum_sq_diff))


def coherence(stats: Stats) -> float:
    """How far the error has one sign, 0 (noise) … 1 (a constant offset): ``|mean| / rms`` of the difference."""
    if stats.count == 0 or not 0.0 < stats.sum_sq_diff < math.inf:
        return 0.0
    return min(1.0, abs(stats.sum_diff) / math.sqrt(stats.sum_sq_diff) / math.sqrt(stats.count))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
