"""constant: every element has the value of the first, as from a device that always answers the same."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A constant copy."""
    if not array.size:
        return array
    return np.full_like(array, array.reshape(-1)[0])
