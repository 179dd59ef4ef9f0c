"""The size of a tensor, by which its errors are scaled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from consistency.metrics.accumulate import CHUNK, LANES, add_lanes, fold_lanes
from consistency.records import Scale

#: A mask is a cluster of large negative numbers, this far above everything else in magnitude.
MASK_LEAST = 1e3
MASK_GAP = 1e3
DIGIT_BITS = 16

Floats = npt.NDArray[np.float64]


def scale_of(array: np.ndarray) -> Scale:
    """RMS, 99.9th percentile and maximum of ``|x|`` over the finite elements; zeros when there are none.

    ULP and relative error explode on elements near zero, and the maximum belongs to outliers; RMS and a high
    percentile do neither. Mask values (-1e4, -1e9) are left out of both, else the scale of attention
    scores would be that of their mask. The percentile is an element of the tensor (nearest rank). Squares are added
    in the order of ``accumulate``, those left out as zeros; float64 ones after division by the maximum, so that none
    over- or underflows. Memory is bounded by a chunk, whatever the tensor's size.
    """
    seen = _Chunks(array.reshape(-1), -math.inf)
    lowest, largest, _ = seen.extremes()
    if largest == 0.0:
        return Scale(0.0, 0.0, 0.0)
    kept = _without_mask(seen, lowest)
    _, top, count = kept.extremes()
    unit = top if array.dtype == np.float64 else 1.0
    lanes = np.zeros(LANES)
    for values, wanted in kept:
        lanes = add_lanes(lanes, np.square(np.where(wanted, values, 0.0) / unit))
    rms = unit * math.sqrt(fold_lanes(lanes) / count)
    return Scale(rms=rms, p999=nth_magnitude(kept, rank_of(count)), max_abs=largest)


def rank_of(size: int) -> int:
    """Index of the 99.9th percentile (nearest rank) among ``size`` sorted elements."""
    return max(0, -(-999 * size // 1000) - 1)


@dataclass(frozen=True)
class _Chunks:
    """The elements of a flat tensor as float64, a chunk at a time, and which of them are finite and above ``floor``."""

    flat: np.ndarray
    floor: float

    def __iter__(self) -> Iterator[tuple[Floats, npt.NDArray[np.bool_]]]:
        for start in range(0, self.flat.size, CHUNK):
            values = self.flat[start : start + CHUNK].astype(np.float64)
            yield values, np.isfinite(values) & (values > self.floor)

    def extremes(self) -> tuple[float, float, int]:
        """Smallest element, largest magnitude, number of elements; zeros when there are none."""
        lowest, largest, count = math.inf, 0.0, 0
        for values, wanted in self:
            some = values[wanted]
            if some.size:
                lowest = min(lowest, float(some.min()))
                largest = max(largest, float(np.abs(some).max()))
                count += some.size
        return (lowest if count else 0.0), largest, count


def _without_mask(seen: _Chunks, lowest: float) -> _Chunks:
    """The chunks without their mask values, if they have any.

    They are a mask when all elements within a factor of 4 of the largest magnitude are negative and at least
    1e3, and the rest, not all zero, is smaller by 1e3: continuous values leave no such gap.
    """
    if lowest > -MASK_LEAST:
        return seen
    rest = _Chunks(seen.flat, lowest / 4)
    _, largest_rest, _ = rest.extremes()
    return rest if 0.0 < largest_rest <= -lowest / MASK_GAP else seen


def nth_magnitude(kept: _Chunks, rank: int) -> float:
    """The magnitude of index ``rank`` in order: a radix search, 16 bits of the float64 at a time."""
    prefix = np.uint64(0)
    for level in range(64 // DIGIT_BITS):
        shift = np.uint64(64 - DIGIT_BITS * (level + 1))
        counts = np.zeros(1 << DIGIT_BITS, dtype=np.int64)
        for values, wanted in kept:
            keys = np.abs(values[wanted]).view(np.uint64) >> shift
            digits = keys[keys >> np.uint64(DIGIT_BITS) == prefix] & np.uint64((1 << DIGIT_BITS) - 1)
            if digits.size:
                counts += np.bincount(digits.astype(np.int64), minlength=counts.size)
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, rank, side="right"))
        rank -= int(below[digit - 1]) if digit else 0
        prefix = (prefix << np.uint64(DIGIT_BITS)) | np.uint64(digit)
        if counts[digit] == 1 or level == 64 // DIGIT_BITS - 1:
            break
    return _the_one(kept, prefix, shift)


def _the_one(kept: _Chunks, prefix: np.uint64, shift: np.uint64) -> float:
    """Any magnitude whose leading bits are ``prefix``."""
    for values, wanted in kept:
        magnitudes = np.abs(values[wanted])
        hits = magnitudes[magnitudes.view(np.uint64) >> shift == prefix]
        if hits.size:
            return float(hits[0])
    raise AssertionError("the element was counted")
