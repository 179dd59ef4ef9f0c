"""Outputs that are probabilities: Kullback-Leibler divergence and agreement of the best classes."""

from __future__ import annotations

import numpy as np

#: How far the sum of a distribution in half precision may be from 1.
SUM_TOLERANCE = 1e-2
SAMPLE = 4096


def is_distribution(values: np.ndarray) -> bool:
    """Whether the last axis holds probabilities of at least two classes that sum to 1."""
    if values.dtype.kind != "f" or values.ndim == 0 or values.shape[-1] < 2 or not values.size:
        return False
    first = values.reshape(-1)[:SAMPLE]
    for some in (first, values):  # most tensors hold a negative number among the first
        if not np.isfinite(some).all() or (some < 0).any():
            return False
    return bool((np.abs(values.astype(np.float64).sum(axis=-1) - 1.0) <= SUM_TOLERANCE).all())


def divergence(got: np.ndarray, ref: np.ndarray) -> float | None:
    """The largest ``sum ref · ln(ref / got)`` over the rows of the last axis, in nats.

    ``None`` unless both are distributions, and where it is infinite: ``got`` gives no chance to what ``ref`` allows.
    Both are normalised first, so that rounding of the sums is not divergence.
    """
    if got.shape != ref.shape or not (is_distribution(got) and is_distribution(ref)):
        return None
    mine, theirs = (_rows(side) for side in (got, ref))
    possible = theirs > 0
    if (mine[possible] == 0).any():
        return None
    ratio = np.divide(theirs, mine, out=np.ones_like(theirs), where=possible)
    return max(0.0, float((theirs * np.log(ratio)).sum(axis=-1).max()))


def top_agreement(got: np.ndarray, ref: np.ndarray, best: int) -> float | None:
    """Share of rows whose ``best`` largest classes are the same set, 0 … 1; ``None`` where that means nothing.

    Of equal values the class with the smaller index goes first, on both sides. A row with a NaN agrees with none.
    """
    if best < 1 or got.shape != ref.shape or ref.ndim == 0 or ref.dtype.kind != "f" or ref.shape[-1] <= best:
        return None
    if not ref.size:
        return None
    mine, theirs = (side.reshape(-1, side.shape[-1]).astype(np.float64) for side in (got, ref))
    same = np.sort(_largest(mine, best), axis=-1) == np.sort(_largest(theirs, best), axis=-1)
    known = ~(np.isnan(mine).any(axis=-1) | np.isnan(theirs).any(axis=-1))
    return float((same.all(axis=-1) & known).mean())


def _largest(rows: np.ndarray, best: int) -> np.ndarray:
    return np.argsort(-rows, axis=-1, kind="stable")[:, :best]


def _rows(values: np.ndarray) -> np.ndarray:
    rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
    normal: np.ndarray = rows / rows.sum(axis=-1, keepdims=True)
    return normal
