"""Whether two tensors hold the same values in another order of axes; a hint, never a pass."""

from __future__ import annotations

import itertools
import math

import numpy as np

#: 120 orders of five axes are tried; more would cost more than the hint is worth.
MOST_AXES = 5
_SAMPLE = 4096
_NCHW_NHWC = {(0, 2, 3, 1), (0, 3, 1, 2)}


def layout_hint(got: np.ndarray, ref: np.ndarray) -> str | None:
    """``equal after NCHW-NHWC transpose`` and its like: ``got`` is ``ref`` with its axes permuted, dumped flat.

    Shapes may differ, sizes may not. Two tensors that are already equal element by element have no hint.
    """
    if got.size != ref.size or got.size < 2 or not 2 <= ref.ndim <= MOST_AXES:
        return None
    flat = got.reshape(-1)
    if np.array_equal(flat, ref.reshape(-1)):
        return "equal in memory order: only the shape differs" if got.shape != ref.shape else None
    orders = sorted(itertools.permutations(range(ref.ndim)), key=lambda order: order not in _NCHW_NHWC)
    for order in orders:
        turned = ref.transpose(order)
        if not np.array_equal(flat[:_SAMPLE], turned.flat[:_SAMPLE]):
            continue
        if np.array_equal(flat, turned.reshape(-1)):
            return f"equal after {_name(order)}"
    return None


def _name(order: tuple[int, ...]) -> str:
    return "NCHW-NHWC transpose" if order in _NCHW_NHWC else f"transpose of axes {list(order)}"


def differing_in_order(got: np.ndarray, ref: np.ndarray) -> int | None:
    """Elements that differ when both are read flat; ``None`` where the sizes differ."""
    if math.prod(got.shape) != math.prod(ref.shape):
        return None
    return int(np.count_nonzero(got.reshape(-1) != ref.reshape(-1)))
