"""Boxes and masks: intersection over union."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BoxMatch:
    """``pairs`` of (index in got, index in ref, IoU); the rest of either side has no partner."""

    pairs: tuple[tuple[int, int, float], ...]
    only_got: tuple[int, ...]
    only_ref: tuple[int, ...]

    @property
    def worst(self) -> float:
        """The smallest IoU of all boxes: 0 when one has no partner, 1 when there is none at all."""
        if self.only_got or self.only_ref:
            return 0.0
        return min((overlap for _, _, overlap in self.pairs), default=1.0)


def mask_iou(got: np.ndarray, ref: np.ndarray) -> float:
    """Of two masks of equal shape, anything not zero is inside; 1 for two empty masks."""
    if got.shape != ref.shape:
        raise ValueError(f"shapes differ: {list(got.shape)} and {list(ref.shape)}")
    mine, theirs = got != 0, ref != 0
    union = int(np.count_nonzero(mine | theirs))
    return int(np.count_nonzero(mine & theirs)) / union if union else 1.0


def match_boxes(got: np.ndarray, ref: np.ndarray, least: float = 0.5) -> BoxMatch:
    """Pair boxes (N, 4) of ``x0 y0 x1 y1`` by IoU, best pair first, none below ``least``; order does not matter.

    ``ValueError`` for another shape. A box with a non-finite corner, or one turned inside out, overlaps nothing.
    """
    mine, theirs = _boxes(got), _boxes(ref)
    table = _table(mine, theirs)
    pairs: list[tuple[int, int, float]] = []
    left, right = set(range(len(mine))), set(range(len(theirs)))
    for flat in np.argsort(-table, axis=None, kind="stable"):
        here, there = divmod(int(flat), table.shape[1])
        if table[here, there] < least:
            break
        if here in left and there in right:
            pairs.append((here, there, float(table[here, there])))
            left.discard(here)
            right.discard(there)
    return BoxMatch(tuple(pairs), tuple(sorted(left)), tuple(sorted(right)))


def _boxes(values: np.ndarray) -> Floats:
    if values.ndim != 2 or values.shape[1] != 4:
        raise ValueError(f"boxes have the shape (N, 4), not {list(values.shape)}")
    return values.astype(np.float64)


def _table(got: Floats, ref: Floats) -> Floats:
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        low = np.maximum(got[:, None, :2], ref[None, :, :2])
        high = np.minimum(got[:, None, 2:], ref[None, :, 2:])
        shared = np.prod(np.clip(high - low, 0, None), axis=-1)
        union = _area(got)[:, None] + _area(ref)[None, :] - shared
        table: Floats = np.where(union > 0, shared / union, 0.0)
    return np.nan_to_num(table, nan=0.0, posinf=0.0, neginf=0.0)


def _area(boxes: Floats) -> Floats:
    area: Floats = np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=-1)
    return area
