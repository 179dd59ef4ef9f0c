"""A ``.npz`` archive: tensors by entry name, unpacked one at a time after their declared sizes were checked."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from contextlib import ExitStack
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
    # One archive for all loaders: opening it reads the whole directory.
    resources = ExitStack()
    try:
        archive = resources.enter_context(zipfile.ZipFile(path))
    except (*BROKEN, zipfile.BadZipFile) as error:
        raise damaged(path, error) from error
    tensors: dict[str, Loader] = {}
    for entry in archive.namelist():
        if not entry.endswith(".npy"):
            continue
        name = entry.removesuffix(".npy")
        if name in tensors:
            raise damaged(path, f"entry {entry!r} is given twice")
        tensors[name] = _loader(archive, path, entry, name)
    return Capture(path, tensors, resources=resources)


def _loader(archive: zipfile.ZipFile, path: Path, entry: str, name: str) -> Loader:
    return lambda: _load(archive, path, entry, name)


def _load(archive: zipfile.ZipFile, path: Path, entry: str, name: str) -> Tensor:
    try:
        with without_warnings():
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
