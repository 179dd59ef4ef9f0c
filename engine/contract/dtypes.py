"""Element types the contract knows, by their ONNX/numpy name."""

from __future__ import annotations

import math

import numpy as np

from engine.contract.errors import ModelError

#: name -> bytes per element. Names are those of numpy, plus bfloat16 (carried as uint16 bits).
ITEM_SIZES = {
    "float32": 4,
    "float64": 8,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
}

FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})


def item_size(dtype: str) -> int:
    """Bytes of one element of ``dtype``; ``ModelError`` when the name is unknown."""
    try:
        return ITEM_SIZES[dtype]
    except KeyError:
        raise ModelError(f"unknown dtype {dtype!r}", hint=f"known: {', '.join(sorted(ITEM_SIZES))}") from None


def storage_dtype(dtype: str) -> np.dtype[np.generic]:
    """Little-endian numpy dtype that holds the raw bytes of ``dtype``."""
    item_size(dtype)
    return np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")


def decode(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Raw little-endian C-order bytes as an array; bfloat16 is widened to float32 exactly."""
    expected = item_size(dtype) * math.prod(shape)  # Python integers: a hostile shape cannot wrap around
    if len(data) != expected:
        raise ModelError(f"tensor holds {len(data)} bytes where {dtype}{list(shape)} needs {expected}")
    array = np.frombuffer(data, dtype=storage_dtype(dtype)).reshape(shape)
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array
