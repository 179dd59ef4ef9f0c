"""A ``.npz`` archive: tensors by entry name, unpacked one at a time after their declared sizes were checked."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from pathlib import Path

from numpy.lib import format as npy

from ci.captures.capture import Capture, Loader, damaged, held, refused_size, unreadable
from ci.captures.npyheader import BROKEN, read_header, without_warnings
from consistency.tensors import Tensor

ONE_TENSOR = False


def takes(path: Path) -> bool:
    """By suffix."""
    return path.suffix == ".npz" and path.is_file()


def read(path: Path) -> Capture:
    """All entries; ``UsageError`` when the archive is damaged or names an entry twice."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.namelist()
    except (*BROKEN, zipfile.BadZipFile) as error:
        raise damaged(path, error) from error
    tensors: dict[str, Loader] = {}
    for entry in entries:
        if not entry.endswith(".npy"):
            continue
        name = entry.removesuffix(".npy")
        if name in tensors:
            raise damaged(path, f"entry {entry!r} is given twice")
        tensors[name] = _loader(path, entry, name)
    return Capture(path, tensors)


def _loader(path: Path, entry: str, name: str) -> Loader:
    return lambda: _load(path, entry, name)


def _load(path: Path, entry: str, name: str) -> Tensor:
    try:
        with without_warnings(), zipfile.ZipFile(path) as archive:
            size = archive.getinfo(entry).file_size
            with archive.open(entry) as stream:
                header = read_header(stream, size)
            refusal = header.refusal or refused_size(header.nbytes)
            if refusal:
                return unreadable(name, header.dtype.name, header.shape, refusal)
            with archive.open(entry) as stream:
                return held(name, npy.read_array(stream, allow_pickle=False))  # type: ignore[no-untyped-call, unused-ignore]
    except (*BROKEN, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        raise damaged(path, f"entry {entry!r}: {error}") from error
