"""The largest error of each channel: one broken channel of many hides in every sum over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CHANNEL_AXIS = 1
"""ONNX tensors are NCHW."""


@dataclass(frozen=True)
class ChannelError:
    """``largest[c]`` is the maximum of ``|got - ref|`` over the finite pairs of channel ``c``."""

    axis: int
    largest: tuple[float, ...]

    @property
    def worst(self) -> int:
        """The first channel with the largest error."""
        return int(np.argmax(self.largest))

    def hit(self, bound: float) -> int:
        """How many channels have an error above ``bound``."""
        return sum(error > bound for error in self.largest)


def channel_error(got: np.ndarray, ref: np.ndarray, axis: int = CHANNEL_AXIS) -> ChannelError | None:
    """Errors by index of ``axis`` (same shapes); ``None`` for a tensor of fewer than three axes or one channel."""
    if got.shape != ref.shape:
        raise ValueError(f"shapes differ: {list(got.shape)} and {list(ref.shape)}")
    if ref.ndim < 3 or not 0 <= axis < ref.ndim or ref.shape[axis] < 2 or not ref.size:
        return None
    mine, theirs = np.moveaxis(got, axis, 0), np.moveaxis(ref, axis, 0)
    return ChannelError(axis, tuple(_largest(mine[index], theirs[index]) for index in range(ref.shape[axis])))


def _largest(got: np.ndarray, ref: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(got.astype(np.float64) - ref.astype(np.float64))
    finite = distance[np.isfinite(distance)]
    return float(finite.max()) if finite.size else 0.0
