"""Digests: XXH3-128 for layers (fast), SHA-256 for files (trusted)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import xxhash


def tensor_digest(array: np.ndarray) -> str:
    """XXH3-128 (32 hex digits) of the array's little-endian bytes in C order."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return xxhash.xxh3_128_hexdigest(little.reshape(-1).view(np.uint8).data if little.size else b"")


def bytes_digest(data: bytes) -> str:
    """XXH3-128 (32 hex digits) of raw tensor bytes."""
    return xxhash.xxh3_128_hexdigest(data)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
