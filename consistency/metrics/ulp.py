"""Distance in units in the last place: a name for small differences, never the measure of a layer.

On elements near zero it explodes (a healthy pair of chips reads 1,376 ULP), so no profile judges it.
"""

from __future__ import annotations

import numpy as np

_SIGNED = {"float16": np.int16, "float32": np.int32, "float64": np.int64}


def ulp_distance(got: float, ref: float, dtype: str) -> int | None:
    """Representable numbers between two finite values of ``dtype``; ``None`` for other types or non-finite values.

    Source: B. Dawson, "Comparing floating point numbers" (2012): the bits of IEEE numbers, read as
    sign-magnitude integers, are in order.
    """
    if dtype not in _SIGNED or not (np.isfinite(got) and np.isfinite(ref)):
        return None
    return abs(_ordinal(got, dtype) - _ordinal(ref, dtype))


def _ordinal(value: float, dtype: str) -> int:
    with np.errstate(over="ignore", under="ignore"):
        number = np.array(value, dtype=dtype)
    bits = int(number.view(_SIGNED[dtype]))
    # Negative numbers count downwards from zero; +0 and -0 are the same place.
    return bits if bits >= 0 else -(bits + 2 ** (8 * number.itemsize - 1))
