"""Differences of quantised tensors in steps of their code (LSB), with the sign that a rounding rule leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST = 8
"""Differences beyond this many steps are counted together."""


@dataclass(frozen=True)
class LsbHistogram:
    """``counts[d]`` elements differ by ``d`` steps, ``-MOST <= d <= MOST``; the ends hold what lies beyond, too."""

    counts: tuple[tuple[int, int], ...]

    @property
    def bias(self) -> float | None:
        """From -1 (got is always smaller) to 1 (always larger); about 0 for honest rounding, ``None`` without any."""
        above = sum(count for step, count in self.counts if step > 0)
        below = sum(count for step, count in self.counts if step < 0)
        return (above - below) / (above + below) if above + below else None

    def __str__(self) -> str:
        """Such as ``-1: 40, 0: 51120, +1: 40``."""
        return ", ".join(
            f"{'≤' if step == -MOST else '≥' if step == MOST else ''}{step:+d}: {count}".replace("+0", "0")
            for step, count in self.counts
        )


def lsb_histogram(got: np.ndarray, ref: np.ndarray) -> LsbHistogram:
    """Steps by which two integer tensors of equal shape differ. ``ValueError`` for anything else."""
    if got.shape != ref.shape or got.dtype.kind not in "iu" or ref.dtype.kind not in "iu":
        raise ValueError(
            f"two integer tensors of one shape are needed, not {got.dtype}{list(got.shape)} "
            f"and {ref.dtype}{list(ref.shape)}"
        )
    got, ref = got.reshape(-1), ref.reshape(-1)
    low, high = np.minimum(got, ref), np.maximum(got, ref)
    # Modulo 2**64 the larger minus the smaller is the exact distance, whatever the signs
    distance = high.astype(np.uint64) - low.astype(np.uint64)
    steps = np.minimum(distance, np.uint64(MOST)).astype(np.int64)
    steps = np.where(got < ref, -steps, steps)
    found, counts = np.unique(steps, return_counts=True)
    return LsbHistogram(tuple((int(step), int(count)) for step, count in zip(found, counts, strict=True)))
