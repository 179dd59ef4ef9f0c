"""Non-finite values, counted before anything else and kept out of every sum."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from consistency.records import NonFinite

Kinds = npt.NDArray[np.uint8]


def count_nonfinite(array: np.ndarray) -> NonFinite:
    """Count NaN, +Inf and -Inf of ``array`` (any shape); integers and booleans have none."""
    if array.dtype.kind != "f":
        return NonFinite()
    kinds = nonfinite_kinds(array)
    return NonFinite(*(int(np.count_nonzero(kinds == code)) for code in (1, 2, 3)))


def nonfinite_kinds(array: np.ndarray) -> Kinds:
    """Per element 0 finite, 1 NaN, 2 +Inf, 3 -Inf, so that a NaN never counts as equal to an Inf."""
    kinds = np.zeros(array.shape, dtype=np.uint8)
    kinds[np.isnan(array)] = 1
    kinds[np.isposinf(array)] = 2
    kinds[np.isneginf(array)] = 3
    return kinds
