"""The header of a ``.npy`` stream, checked against the bytes that follow before anything is allocated."""

from __future__ import annotations

import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from ci.captures.capture import element_count

#: What a broken archive or header raises, beyond ``ValueError``.
BROKEN = (ValueError, OSError, EOFError, OverflowError, RuntimeError, KeyError)

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True)
class NpyHeader:
    """``refusal`` says why a well-formed tensor is not loaded (Python objects)."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int
    refusal: str = ""


@contextmanager
def without_warnings() -> Iterator[None]:
    """A header written by Python 2, or a strange one, is read or refused; it does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_header(stream: IO[bytes], size: int) -> NpyHeader:
    """Read the header of a stream of ``size`` bytes. ``ValueError``: no such header, or other bytes than it says."""
    try:
        version = npy.read_magic(stream)  # type: ignore[no-untyped-call, unused-ignore]
        reader = _READERS.get(version)
        if reader is None:
            raise ValueError(f"npy version {version[0]}.{version[1]} holds structured records")
        shape, _, dtype = reader(stream)  # type: ignore[no-untyped-call, unused-ignore]
    except (SyntaxError, TypeError, KeyError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise ValueError(f"broken header: {error}") from error
    count = element_count(shape)
    if dtype.hasobject:
        return NpyHeader(dtype, shape, 0, "holds Python objects (a pickle), which are never loaded")
    nbytes, present = count * dtype.itemsize, size - stream.tell()
    if nbytes != present:
        raise ValueError(f"{present} bytes of data where {dtype.name}{list(shape)} needs {nbytes}")
    return NpyHeader(dtype, shape, nbytes)
