"""A ``.safetensors`` file: a JSON header of bounded size, then raw tensors that lie one after another."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ci.captures.capture import Capture, Loader, damaged, element_count, refused_size, unreadable
from consistency.tensors import Tensor
from engine.contract.dtypes import decode, item_size

ONE_TENSOR = False
MAX_HEADER_BYTES = 100_000_000

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


@dataclass(frozen=True)
class _Entry:
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def takes(path: Path) -> bool:
    """By suffix."""
    return path.suffix == ".safetensors" and path.is_file()


def read(path: Path) -> Capture:
    """All tensors; ``UsageError`` when the header is damaged, or claims bytes the file does not have."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = _header_length(file.read(8), size)
            document = json.loads(file.read(length), object_pairs_hook=_unique)
        entries = _entries(document, size - 8 - length)
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, error) from error
    return Capture(path, {name: _loader(path, name, entry, 8 + length) for name, entry in entries.items()})


def _header_length(prefix: bytes, size: int) -> int:
    length = int.from_bytes(prefix, "little")
    if size < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
        raise ValueError(f"a header of {length} bytes in a file of {size}")
    return length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the header names something twice")
    return found


def _entries(document: object, available: int) -> dict[str, _Entry]:
    if not isinstance(document, dict):
        raise ValueError("the header is no mapping")  # noqa: TRY004 - one kind of error for a damaged file
    entries = {name: _entry(name, value) for name, value in document.items() if name != "__metadata__"}
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            raise ValueError(f"tensor {name!r} begins at byte {entry.begin}, the one before ends at {at}")
        at = entry.end
    if at != available:
        raise ValueError(f"the tensors take {at} bytes of the {available} that follow the header")
    return entries


def _entry(name: str, value: object) -> _Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name!r} needs dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    count = element_count(shape)
    if not isinstance(dtype, str) or element_count(offsets) < 0 or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"tensor {name!r} has dtype {dtype!r} and offsets {offsets!r}")
    begin, end = offsets
    known = _DTYPES.get(dtype)
    if known is not None and end - begin != count * item_size(known):
        raise ValueError(
            f"tensor {name!r} has {end - begin} bytes where {dtype}{shape} needs {count * item_size(known)}"
        )
    return _Entry(dtype, tuple(shape), begin, end)


def _loader(path: Path, name: str, entry: _Entry, start: int) -> Loader:
    return lambda: _load(path, name, entry, start)


def _load(path: Path, name: str, entry: _Entry, start: int) -> Tensor:
    known = _DTYPES.get(entry.dtype)
    if known is None:
        return unreadable(name, entry.dtype, entry.shape, f"dtype {entry.dtype} is not known")
    refusal = refused_size(entry.end - entry.begin)
    if refusal:
        return unreadable(name, known, entry.shape, refusal)
    with path.open("rb") as file:
        file.seek(start + entry.begin)
        data = file.read(entry.end - entry.begin)
    if len(data) != entry.end - entry.begin:
        raise damaged(path, f"tensor {name!r} is cut short")
    if known == "bool":
        return Tensor(name, known, entry.shape, np.frombuffer(data, np.uint8).reshape(entry.shape) != 0)
    return Tensor(name, known, entry.shape, decode(data, known, entry.shape))
