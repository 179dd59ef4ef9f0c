"""Direction and length: cosine, always beside the ratio of norms, because cosine cannot see a scale."""

from __future__ import annotations

import math

from consistency.records import Stats


def cosine(stats: Stats) -> float | None:
    """Cosine of the angle between got and golden, in [-1, 1].

    Two zero tensors point the same way (1); one zero tensor has no direction (``None``).
    Norms are multiplied after their roots, so that large sums do not overflow.
    """
    if stats.sum_sq_got == 0.0 and stats.sum_sq_ref == 0.0:
        return 1.0
    norms = _norm(stats.sum_sq_got) * _norm(stats.sum_sq_ref)
    if not 0.0 < norms < math.inf or not math.isfinite(stats.dot):
        return None
    return max(-1.0, min(1.0, stats.dot / norms))


def norm_ratio(stats: Stats) -> float | None:
    """``|got| / |golden|``; 1 for two zero tensors, ``None`` where only the golden is zero."""
    if stats.sum_sq_got == 0.0 and stats.sum_sq_ref == 0.0:
        return 1.0
    length = _norm(stats.sum_sq_ref)
    if not 0.0 < length < math.inf:
        return None
    ratio = _norm(stats.sum_sq_got) / length
    return ratio if math.isfinite(ratio) else None


def _norm(sum_of_squares: float) -> float:
    return math.sqrt(sum_of_squares) if sum_of_squares >= 0.0 else math.nan
