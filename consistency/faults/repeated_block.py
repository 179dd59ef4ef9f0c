"""repeated_block: the second half holds the first again, as from a buffer whose pointer did not move on."""

from __future__ import annotations

import numpy as np


def apply(array: np.ndarray) -> np.ndarray:
    """A copy with the repetition; a last odd element stays."""
    changed = array.copy()
    flat = changed.reshape(-1)
    half = flat.size // 2
    flat[half : 2 * half] = flat[:half]
    return changed
