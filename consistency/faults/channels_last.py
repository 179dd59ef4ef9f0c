"""channels_last: the elements lie in channels-last order under a channels-first shape."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy in the other order; arrays of fewer than three axes have no other."""
    if array.ndim < 3:
        return array
    return np.moveaxis(array, 1, -1).reshape(array.shape)
