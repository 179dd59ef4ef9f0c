"""Likely causes that the arrays of one failing pair show; hints, never verdicts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from consistency import words

#: A constant is a constant up to the rounding of the numbers it was taken from.
_ROUNDING = 1e-6
_COLOURS = 3

Floats = npt.NDArray[np.float64]


def flushed(count: int, size: int) -> str | None:
    """``subnormal flush`` with the number of elements that are subnormal on one side and zero on the other."""
    return f"subnormal flush: {count} of {size} elements" if count else None


def constant_offset(got: np.ndarray, ref: np.ndarray, scale: float | None) -> str | None:
    """Every element is off by the same amount: a zero-point error where it is whole steps of ``scale``."""
    difference = _difference(got, ref)
    offset = _constant(difference, _reach(got, ref))
    if offset is None or offset == 0.0:
        return None
    steps = round(offset / scale) if scale else 0
    if scale and steps and abs(offset - steps * scale) <= 1e-3 * scale:
        return f"zero-point error: constant offset of {abs(offset):.6g}, {abs(steps)} steps of scale {scale:.7g}"
    return f"constant offset of {offset:.6g}" if difference.size > 1 else None


def channel_swap(got: np.ndarray, ref: np.ndarray) -> str | None:
    """Three channels in reverse order, or with the constants of reverse order subtracted from them."""
    if got.shape != ref.shape:
        return None
    for axis in [axis for axis in range(ref.ndim) if ref.shape[axis] == _COLOURS]:
        if ref.size > _COLOURS and np.array_equal(got, np.flip(ref, axis)):
            return "channel swap: equal with the three channels in reverse order"
        channels = np.moveaxis(_difference(got, ref), axis, 0).reshape(_COLOURS, -1)
        reach = _reach(got, ref)
        offsets = [_constant(channel, reach) for channel in channels]
        first, middle, last = offsets
        if first is None or middle is None or last is None or abs(first) <= reach * _ROUNDING:
            continue
        if abs(first + last) <= 4 * reach * _ROUNDING and abs(middle) <= 4 * reach * _ROUNDING:
            return f"channel swap: constant differences of ({first:+.6g}, {abs(middle):.3g}, {last:+.6g})"
    return None


def constant_value(values: np.ndarray) -> str | None:
    """The one value of a tensor of at least two elements that all have it, in words."""
    flat = values.reshape(-1)
    if flat.size < 2 or not np.array_equal(flat, np.broadcast_to(flat[0], flat.shape)):
        return None
    return str(bool(flat[0])) if flat.dtype.kind == "b" else words.number(float(flat[0]))


def _difference(got: np.ndarray, ref: np.ndarray) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        return got.astype(np.float64) - ref.astype(np.float64)


def _reach(got: np.ndarray, ref: np.ndarray) -> float:
    """The largest magnitude on either side: what rounding is relative to."""
    return max((float(np.abs(side.astype(np.float64)).max()) for side in (got, ref) if side.size), default=0.0)


def _constant(difference: Floats, reach: float) -> float | None:
    if difference.size == 0 or not np.isfinite(difference).all():
        return None
    low, high = float(difference.min()), float(difference.max())
    return (low + high) / 2 if high - low <= 4 * reach * _ROUNDING else None
