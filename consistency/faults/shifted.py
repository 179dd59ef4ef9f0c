"""shifted: every element is its neighbour, as after a wrong offset into a buffer."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy moved by one element; the first becomes the last."""
    return np.roll(array.reshape(-1), -1).reshape(array.shape)
