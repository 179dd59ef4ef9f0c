"""one_nan: one element is not a number."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy whose last element is a NaN."""
    if array.dtype.kind != "f" or not array.size:
        return array
    changed = array.copy()
    changed.reshape(-1)[-1] = np.nan
    return changed
