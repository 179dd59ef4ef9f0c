"""A ``.bin`` or ``.raw`` file: bytes without a word about them; ``--meta`` has to declare dtype and shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ci.captures.capture import Capture, refused_size, unreadable
from consistency.tensors import Tensor

ONE_TENSOR = True
RAW = "raw"


def takes(path: Path) -> bool:
    """By suffix."""
    return path.suffix in (".bin", ".raw") and path.is_file()


def read(path: Path) -> Capture:
    """One tensor of bytes, called by the file's stem."""
    return Capture(path, {path.stem: lambda: _load(path)}, one_tensor=True)


def _load(path: Path) -> Tensor:
    size = path.stat().st_size
    refusal = refused_size(size)
    if refusal:
        return unreadable(path.stem, RAW, (size,), refusal)
    return Tensor(path.stem, RAW, (size,), np.fromfile(path, dtype=np.uint8))
