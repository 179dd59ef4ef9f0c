"""transposed: the elements of the last two axes lie in the other order under the same shape."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy in the other order; a vector has no other."""
    if array.ndim < 2:
        return array
    return np.ascontiguousarray(np.swapaxes(array, -1, -2)).reshape(array.shape)
