"""``--meta FILE``: what raw dumps do not say about themselves, and what was meant by those that do."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from ci.captures.formats.raw import RAW
from consistency.tensors import Quantisation, Tensor
from engine.contract.dtypes import ITEM_SIZES, decode, item_size
from engine.contract.errors import ConfigError
from farm.config import Strict, load

Side = Literal["A", "B"]
Size = Annotated[int, Field(ge=0)]
Axis = Annotated[int, Field(ge=0)]

#: layout → order of the reference's axes as they are stored; channels-first is the reference's own order.
LAYOUTS: dict[str, tuple[int, ...]] = {
    "NCHW": (0, 1, 2, 3),
    "NHWC": (0, 2, 3, 1),
    "CHW": (0, 1, 2),
    "HWC": (1, 2, 0),
    "NCW": (0, 1, 2),
    "NWC": (0, 2, 1),
    "NCDHW": (0, 1, 2, 3, 4),
    "NDHWC": (0, 2, 3, 4, 1),
}


class Quantised(Strict):
    """``real = scale * (code - zero_point)``; lists with ``axis`` for a scale of each channel."""

    scale: float | tuple[float, ...]
    zero_point: int | tuple[int, ...] = 0
    dtype: str
    axis: Axis | None = None

    @model_validator(mode="after")
    def _possible(self) -> Quantised:
        self.rule()
        return self

    def rule(self) -> Quantisation:
        """The rule; ``ValueError`` when a zero point is outside its type."""
        scales = (self.scale,) if isinstance(self.scale, float) else self.scale
        points = (self.zero_point,) if isinstance(self.zero_point, int) else self.zero_point
        return Quantisation(scales, points * len(scales) if len(points) == 1 else points, self.dtype, self.axis)


class Declared(Strict):
    """One tensor. ``shape`` is as stored; ``layout`` or ``permutation`` lead back to the model's order of axes.

    ``permutation[i]`` is the model's axis that is stored as axis ``i`` (NHWC: ``[0, 2, 3, 1]``). ``strides`` are
    in elements, for padded rows. ``content``: the numbers are ``boxes`` (N, 4) of x0 y0 x1 y1, or a ``mask``.
    For ``B`` only, what a converter recorded: ``of`` is A's name for it, ``covers`` A's tensors fused into it.
    """

    dtype: str | None = None
    shape: tuple[Size, ...] | None = None
    layout: str | None = None
    permutation: tuple[Axis, ...] | None = None
    strides: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    quantisation: Quantised | None = None
    content: Literal["boxes", "mask"] | None = None
    of: str | None = None
    covers: tuple[str, ...] = ()

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, dtype: str | None) -> str | None:
        if dtype is not None and dtype not in ITEM_SIZES:
            raise ValueError(f"dtype {dtype!r} is not known: {', '.join(ITEM_SIZES)}")
        return dtype

    @model_validator(mode="after")
    def _consistent(self) -> Declared:
        if self.layout is not None and self.permutation is not None:
            raise ValueError("give layout or permutation, not both")
        if self.layout is not None and self.layout not in LAYOUTS:
            raise ValueError(f"layout {self.layout!r} is not known: {', '.join(LAYOUTS)}")
        if self.permutation is not None and sorted(self.permutation) != list(range(len(self.permutation))):
            raise ValueError(f"permutation {list(self.permutation)} does not name each axis once")
        if self.strides is not None and (self.shape is None or len(self.strides) != len(self.shape)):
            raise ValueError("strides need a shape with as many axes")
        return self

    @property
    def order(self) -> tuple[int, ...] | None:
        """Order of the model's axes as stored."""
        return LAYOUTS[self.layout] if self.layout else self.permutation


class Meta(Strict):
    """Declarations by tensor name: for the reference (``A``), the judged side (``B``), or ``both``."""

    A: dict[str, Declared] = Field(default_factory=dict)
    B: dict[str, Declared] = Field(default_factory=dict)
    both: dict[str, Declared] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _once(self) -> Meta:
        twice = sorted(set(self.both) & (set(self.A) | set(self.B)))
        if twice:
            raise ValueError(f"{twice[0]!r} is declared for both and for one side")
        for name, declared in (*self.A.items(), *self.both.items()):
            if declared.of is not None or declared.covers:
                raise ValueError(f"{name!r}: of and covers say what B's tensors are of A; declare them for B")
        named = [declared.of for declared in self.B.values() if declared.of is not None]
        if len(set(named)) != len(named):
            raise ValueError(f"{max(named, key=named.count)!r} is the `of` of two tensors")
        return self

    def of(self, side: Side, name: str) -> Declared | None:
        """What is declared for one tensor of one side."""
        mine = self.A if side == "A" else self.B
        return mine.get(name) or self.both.get(name)


def load_meta(path: Path) -> Meta:
    """Read a declaration; ``ConfigError`` names file, key path and fault."""
    return load(path, Meta)


def check_names(meta: Meta, source: Path, a: Collection[str], b: Collection[str]) -> None:
    """Refuse a declaration of a tensor that is not there: a slip of the pen would be silent."""
    for key, declared, names in (("A", meta.A, a), ("B", meta.B, b), ("both", meta.both, {*a, *b})):
        for name in declared:
            _check_name(source, f"{key}.{name}", name, names)
    for name, told in meta.B.items():
        for key, other in (("of", told.of), *(("covers", other) for other in told.covers)):
            if other is not None:
                _check_name(source, f"B.{name}.{key}: {other}", other, a)


def _check_name(source: Path, where: str, name: str, names: Collection[str]) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else "the names are those of the capture"
        raise ConfigError(f"{source}: {where}: no such tensor", hint=hint)


def declare(tensor: Tensor, declared: Declared | None) -> Tensor:
    """``tensor`` as declared, in the model's order of axes; ``ConfigError`` where bytes and words disagree."""
    if tensor.values is None:
        return tensor
    if declared is None:
        if tensor.dtype != RAW:
            return tensor
        return replace(tensor, values=None, reason="a raw dump; declare its dtype and shape in --meta")
    typed = _typed(tensor, declared)
    shaped = _shaped(typed, declared)
    if declared.order is not None:
        shaped = _turned(shaped, declared.order)
    rule = declared.quantisation.rule() if declared.quantisation else None
    if rule is not None and rule.dtype != shaped.dtype:
        raise _contradiction(tensor, f"quantisation of {rule.dtype} is declared, the tensor holds {shaped.dtype}")
    if declared.content == "boxes" and shaped.shape[-1:] != (4,):
        raise _contradiction(tensor, f"boxes have four numbers each, the tensor has the shape {list(shaped.shape)}")
    return replace(shaped, quantisation=rule, content=declared.content or "")


def _typed(tensor: Tensor, declared: Declared) -> Tensor:
    assert tensor.values is not None  # noqa: S101 - checked by declare
    dtype = declared.dtype or (declared.quantisation.dtype if declared.quantisation else None)
    if tensor.dtype == RAW:
        if dtype is None or declared.shape is None or dtype not in ITEM_SIZES:
            raise _contradiction(tensor, "a raw dump needs a dtype and a shape")
        size = item_size(dtype)
        if tensor.values.size % size:
            raise _contradiction(tensor, f"{tensor.values.size} bytes are no whole number of {dtype}")
        count = tensor.values.size // size
        values = decode(tensor.values.tobytes(), dtype, (count,))
        return replace(tensor, dtype=dtype, shape=(count,), values=values)
    if dtype == "bfloat16" and tensor.dtype in ("uint16", "void16"):
        bits = np.ascontiguousarray(tensor.values).astype("<u2")
        return replace(tensor, dtype=dtype, values=decode(bits.tobytes(), dtype, tensor.shape))
    if dtype is not None and dtype != tensor.dtype:
        raise _contradiction(tensor, f"dtype {dtype} is declared, the file holds {tensor.dtype}")
    return tensor


def _shaped(tensor: Tensor, declared: Declared) -> Tensor:
    shape, values = declared.shape, tensor.values
    if shape is None or values is None:
        return tensor
    flat, count = np.ascontiguousarray(values).reshape(-1), math.prod(shape)
    if declared.strides is None:
        if count != flat.size:
            raise _contradiction(tensor, f"shape {list(shape)} has {count} elements, the file holds {flat.size}")
        return replace(tensor, shape=shape, values=flat.reshape(shape))
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, declared.strides, strict=True))
    # Strides that overlap could make a small file a huge tensor.
    if count and (reach > flat.size or count > flat.size):
        raise _contradiction(tensor, f"shape and strides reach element {reach}, the file holds {flat.size}")
    step = tuple(stride * flat.itemsize for stride in declared.strides)
    unpadded = np.lib.stride_tricks.as_strided(flat, shape, step, writeable=False).copy() if count else flat[:0]
    return replace(tensor, shape=shape, values=unpadded.reshape(shape))


def _turned(tensor: Tensor, order: tuple[int, ...]) -> Tensor:
    if tensor.values is None or len(order) != len(tensor.shape):
        raise _contradiction(tensor, f"a layout of {len(order)} axes is declared for shape {list(tensor.shape)}")
    values = tensor.values.transpose([order.index(axis) for axis in range(len(order))])
    return replace(tensor, shape=tuple(values.shape), values=np.ascontiguousarray(values))


def _contradiction(tensor: Tensor, what: str) -> ConfigError:
    return ConfigError(f"--meta: {tensor.name}: {what}", hint="mend the declaration, or the dump (docs/compare.md)")
