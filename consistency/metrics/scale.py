"""The size of a tensor, by which its errors are scaled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from consistency.records import Scale

#: A mask is a cluster of large negative numbers, this far above everything else in magnitude.
MASK_LEAST = 1e3
MASK_GAP = 1e3

Floats = npt.NDArray[np.float64]


def scale_of(array: np.ndarray) -> Scale:
    """RMS, 99.9th percentile and maximum of ``|x|`` over the finite elements; zeros when there are none.

    ULP and relative error explode on elements near zero, and the maximum belongs to outliers; RMS and a high
    percentile do neither. Mask values (-1e4, -1e9) are left out of both, else the scale of attention
    scores would be that of their mask. The percentile is an element of the tensor (nearest rank). Squares
    are taken after division by the maximum, so that subnormal values do not vanish.
    """
    values = np.ascontiguousarray(array).astype(np.float64, copy=False).reshape(-1)
    finite = values[np.isfinite(values)]
    if finite.size == 0 or not finite.any():
        return Scale(0.0, 0.0, 0.0)
    largest = float(np.abs(finite).max())
    magnitude = np.abs(without_mask(finite))
    top = float(magnitude.max())
    rms = top * float(np.sqrt(np.mean(np.square(magnitude / top))))
    rank = max(0, -(-999 * magnitude.size // 1000) - 1)
    return Scale(rms=rms, p999=float(np.partition(magnitude, rank)[rank]), max_abs=largest)


def without_mask(finite: Floats) -> Floats:
    """``finite`` without its mask values, if it has any.

    They are a mask when all elements within a factor of 4 of the largest magnitude are negative and at least
    1e3, and the rest, not all zero, is smaller by 1e3: continuous values leave no such gap.
    """
    lowest = float(finite.min())
    if lowest > -MASK_LEAST:
        return finite
    rest = finite[finite > lowest / 4]
    largest_rest = float(np.abs(rest).max()) if rest.size else 0.0
    return rest if 0.0 < largest_rest <= -lowest / MASK_GAP else finite
