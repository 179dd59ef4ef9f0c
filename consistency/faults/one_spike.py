"""one_spike: one element is off by the largest value of the array, as after a flipped bit."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy with the spike in the middle."""
    if array.dtype.kind != "f" or not array.size:
        return array
    changed = array.copy()
    flat = changed.reshape(-1)
    flat[flat.size // 2] += np.abs(flat).max()
    return changed
