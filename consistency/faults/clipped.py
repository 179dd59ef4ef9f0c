"""clipped: magnitudes above half of the largest saturate, as with a range of quantisation that is too narrow."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A clipped copy; an array without a finite largest magnitude above zero is left alone."""
    if array.dtype.kind != "f" or not array.size:
        return array
    limit = np.abs(array).max() / 2
    return np.asarray(np.clip(array, -limit, limit), dtype=array.dtype) if np.isfinite(limit) else array
