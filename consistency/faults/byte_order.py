"""byte_order: the bytes of every element are in the other order, as between machines of unlike endianness."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy with turned elements; those of one byte have no other order."""
    return array.byteswap() if array.dtype.itemsize > 1 else array
