"""zero_tail: the last eighth of the array is zero, as after a transfer that broke off."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy with a tail of zeros."""
    changed = array.copy()
    flat = changed.reshape(-1)
    flat[flat.size - max(1, flat.size // 8) :] = 0
    return changed
