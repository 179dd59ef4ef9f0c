"""The size of a tensor, by which its errors are scaled."""

from __future__ import annotations

import numpy as np

from consistency.records import Scale

PERCENTILE = 99.9


def scale_of(array: np.ndarray) -> Scale:
    """RMS, 99.9th percentile and maximum of ``|x|`` over the finite elements; zeros when there are none.

    ULP and relative error explode on elements near zero, and the maximum belongs to outliers and masks;
    RMS and a high percentile do neither. The percentile is an element of the tensor (``higher``), so it
    does not depend on how a library interpolates. Squares are taken after division by the maximum, so
    that subnormal values do not vanish.
    """
    values = np.abs(np.ascontiguousarray(array).astype(np.float64, copy=False)).ravel()
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Scale(0.0, 0.0, 0.0)
    largest = float(finite.max())
    if largest == 0.0:
        return Scale(0.0, 0.0, 0.0)
    rms = largest * float(np.sqrt(np.mean(np.square(finite / largest))))
    p999 = float(np.percentile(finite, PERCENTILE, method="higher"))
    return Scale(rms=rms, p999=p999, max_abs=largest)
