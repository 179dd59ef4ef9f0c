"""scaled: everything is 1 % too large, as with the scale of another quantisation."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A scaled copy."""
    if array.dtype.kind != "f":
        return array
    return np.asarray(array * array.dtype.type(1.01), dtype=array.dtype)
