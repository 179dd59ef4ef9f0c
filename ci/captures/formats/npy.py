"""A ``.npy`` file: one tensor, mapped and not read until it is compared; pickled objects are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ci.captures.capture import Capture, damaged, held, refused_size, unreadable
from ci.captures.npyheader import BROKEN, read_header, without_warnings
from consistency.tensors import Tensor

ONE_TENSOR = True


def takes(path: Path) -> bool:
    """By suffix."""
    return path.suffix == ".npy" and path.is_file()


def read(path: Path) -> Capture:
    """One tensor, called by the file's stem."""
    return Capture(path, {path.stem: lambda: _load(path)}, one_tensor=True)


def _load(path: Path) -> Tensor:
    try:
        with without_warnings():
            return _checked(path)
    except BROKEN as error:
        raise damaged(path, error) from error


def _checked(path: Path) -> Tensor:
    with path.open("rb") as file:
        header = read_header(file, path.stat().st_size)
    if header.refusal:
        return unreadable(path.stem, header.dtype.name, header.shape, header.refusal)
    too_large = refused_size(header.nbytes)
    if too_large:
        return unreadable(path.stem, header.dtype.name, header.shape, too_large)
    # A map of no bytes does not exist, and one of few is not worth it.
    mode = "r" if header.nbytes > 2**20 else None
    return held(path.stem, np.load(path, mmap_mode=mode, allow_pickle=False))  # type: ignore[arg-type, unused-ignore]
