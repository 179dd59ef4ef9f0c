"""Mean of the error: reported because people ask for it, never judged, because it hides a spike."""

from __future__ import annotations

import math

import numpy as np

from consistency.metrics.accumulate import CHUNK, LANES, add_lanes, fold_lanes


def mean_abs(got: np.ndarray, ref: np.ndarray) -> float | None:
    """Mean of ``|got - ref|`` over the pairs that are finite, summed in a fixed order; ``None`` without such a pair."""
    flat_got, flat_ref = got.reshape(-1), ref.reshape(-1)
    lanes, count = np.zeros(LANES), 0
    for start in range(0, flat_got.size, CHUNK):
        mine = flat_got[start : start + CHUNK].astype(np.float64)
        theirs = flat_ref[start : start + CHUNK].astype(np.float64)
        both = np.isfinite(mine) & np.isfinite(theirs)
        with np.errstate(over="ignore", invalid="ignore"):
            lanes = add_lanes(lanes, np.where(both, np.abs(mine - theirs), 0.0))
        count += int(np.count_nonzero(both))
    mean = fold_lanes(lanes) / count if count else math.inf
    return mean if math.isfinite(mean) else None
