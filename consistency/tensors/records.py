"""A captured tensor with its array, and what is said about a pair of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from consistency.pairing import Paired
from consistency.records import NonFinite

Content = Literal["", "boxes", "mask"]
TensorStatus = Literal["pass", "fail", "missing", "extra", "not_compared", "not_observable"]

#: Smallest and largest code of the types a quantised tensor may have.
CODE_RANGES = {
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
}


@dataclass(frozen=True)
class Quantisation:
    """``real = scale * (code - zero_point)``; one value, or one for each index of ``axis``.

    ``ValueError`` when a zero point lies outside the codes of ``dtype``, or a scale is no positive number.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    dtype: str
    axis: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in CODE_RANGES:
            raise ValueError(f"quantised dtype {self.dtype!r} is not one of {', '.join(CODE_RANGES)}")
        low, high = CODE_RANGES[self.dtype]
        for point in self.zero_point:
            if not low <= point <= high:
                raise ValueError(f"zero point {point} is outside the range of {self.dtype} ({low} to {high})")
        if not all(0.0 < scale < float("inf") for scale in self.scale):
            raise ValueError("every scale must be a positive number")
        if not self.scale or len(self.scale) != len(self.zero_point):
            raise ValueError(f"{len(self.scale)} scales and {len(self.zero_point)} zero points")
        if (self.axis is None) != (len(self.scale) == 1):
            raise ValueError("several scales need an axis, a single one has none")


@dataclass(frozen=True, eq=False)
class Tensor:
    """One tensor of a capture.

    ``dtype`` is the name of its type even where numpy has none (bfloat16, held widened as float32; int4, held
    as int8; string). ``values`` is ``None`` where the bytes cannot be read as numbers or text; ``reason`` says
    why. ``step`` is the scale of the codes that ``values`` were dequantised from. ``op``, ``inputs`` and
    ``reduction`` (``consistency.records.ReferenceLayer``) are known only of captures that carry the graph.
    ``content`` is what the numbers were declared to be.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: np.ndarray | None
    reason: str = ""
    quantisation: Quantisation | None = None
    step: float | None = None
    op: str = ""
    inputs: tuple[str, ...] = ()
    content: Content = ""
    reduction: int = 0


@dataclass(frozen=True)
class TensorVerdict:
    """What is said about one name of two captures.

    ``metrics`` holds finite numbers, text or ``None`` (``reason`` among them says why). ``span`` is the smallest
    and largest finite value of the reference. ``introduced``: first deviating (``None``: the graph is not known).
    ``paired`` tells by what its partner ``other`` of the judged side was found; ``None`` where it has none.
    """

    name: str
    status: TensorStatus
    reason: str
    metrics: Mapping[str, float | int | str | None] | None = None
    metric: str = ""
    op: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    inputs: tuple[str, ...] = ()
    nonfinite: NonFinite = field(default_factory=NonFinite)
    span: tuple[float, float] | None = None
    introduced: bool | None = None
    paired: Paired | None = None
    other: str = ""


def dequantise(tensor: Tensor) -> Tensor:
    """``tensor`` in real numbers (float32). ``ValueError``: codes of another dtype, or scales that do not fit."""
    rule, codes = tensor.quantisation, tensor.values
    if rule is None or codes is None:
        return tensor
    if tensor.dtype != rule.dtype:
        raise ValueError(f"quantisation is declared for {rule.dtype}, the tensor holds {tensor.dtype}")
    scale, zero = np.array(rule.scale), np.array(rule.zero_point, dtype=np.float64)
    if rule.axis is not None:
        if not 0 <= rule.axis < codes.ndim or codes.shape[rule.axis] != len(rule.scale):
            raise ValueError(f"{len(rule.scale)} scales do not fit axis {rule.axis} of shape {list(tensor.shape)}")
        along = [1] * codes.ndim
        along[rule.axis] = len(rule.scale)
        scale, zero = scale.reshape(along), zero.reshape(along)
    else:
        scale, zero = scale[0], zero[0]
    with np.errstate(over="ignore", under="ignore"):
        real = np.asarray((codes.astype(np.float64) - zero) * scale).astype(np.float32)
    step = rule.scale[0] if rule.axis is None else None
    return replace(tensor, dtype="float32", values=real, quantisation=None, step=step, reason="", content="")
