"""A capture: names, each with a way to load its tensor. Files are untrusted: sizes first, never a pickle."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consistency.tensors import Tensor
from engine.contract.errors import UsageError

#: A tensor larger than this is not loaded, a capture of more tensors is not one.
MAX_TENSOR_BYTES = 4 * 1024**3
MAX_TENSORS = 100_000

#: Types numpy has no name for, by the name their package gives them, and what holds their values exactly.
_HELD_AS = {"bfloat16": np.float32, "int4": np.int8, "uint4": np.uint8}

Loader = Callable[[], Tensor]


@dataclass(frozen=True)
class Capture:
    """``tensors`` name → loader, in the order of the file; ``one_tensor``: the name is only the file's stem.

    Leaving it as a context closes what ``resources`` holds open for the loaders.
    """

    source: Path
    tensors: Mapping[str, Loader]
    one_tensor: bool = False
    resources: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.resources.close()

    def renamed(self, name: str) -> Capture:
        """The single tensor under another name."""
        (load,) = self.tensors.values()
        return Capture(self.source, {name: lambda: replace(load(), name=name)}, one_tensor=True)


def damaged(path: Path, why: object) -> UsageError:
    """The error of a file that does not hold what its format promises."""
    return UsageError(f"{path}: cannot be read: {why}", hint="write the capture again, or check that it is complete")


def refused_size(nbytes: int) -> str:
    """Why a tensor of ``nbytes`` is not loaded; empty when it is."""
    return f"{nbytes} bytes is more than the {MAX_TENSOR_BYTES} a tensor may have" if nbytes > MAX_TENSOR_BYTES else ""


def unreadable(name: str, dtype: str, shape: tuple[int, ...], reason: str) -> Tensor:
    """A tensor that is there and cannot be compared."""
    return Tensor(name, dtype, shape, None, reason=reason)


def held(name: str, array: np.ndarray) -> Tensor:
    """``array`` as a tensor in native byte order; types without numbers or text are named and not compared."""
    shape, kind = tuple(array.shape), array.dtype.kind
    if array.dtype.name in _HELD_AS:
        return Tensor(name, array.dtype.name, shape, array.astype(_HELD_AS[array.dtype.name]))
    if kind == "S":
        array = np.char.decode(array, "utf-8", "surrogateescape")
    if kind in "SU" or (kind == "O" and all(isinstance(item, str) for item in array.reshape(-1))):
        return Tensor(name, "string", shape, array)
    if kind == "V" and array.dtype.names is None and array.dtype.itemsize == 2:
        # ml_dtypes' bfloat16 loses its name in a .npy file; without a declaration no rule compares it.
        return Tensor(name, "void16", shape, np.ascontiguousarray(array).view("<u2").reshape(shape))
    if kind not in "fiub":
        return unreadable(name, array.dtype.name, shape, f"dtype {array.dtype.name} has no numbers that are compared")
    return Tensor(name, array.dtype.name, shape, array.astype(array.dtype.newbyteorder("="), copy=False))


def element_count(shape: object) -> int:
    """Product of a shape read from a file; ``ValueError`` unless it is a list of at most 64 sizes."""
    if not isinstance(shape, (list, tuple)) or len(shape) > 64:
        raise ValueError("a shape is a list of at most 64 sizes")
    for axis in shape:
        if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
            raise ValueError(f"shape {shape} holds something that is no size")
    return math.prod(shape)
