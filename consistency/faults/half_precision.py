"""half_precision: the values went through 16 bits on their way."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A rounded copy."""
    if array.dtype.kind != "f" or array.dtype.itemsize < 4:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(array.dtype)
