"""What a job needs on its device, and how little has to travel for it. Plans only: the links move the bytes.

A device keeps *blobs* by the SHA-256 of their bytes and *bundles* by their digest. It is asked once what it lacks; what
travels is staged in a folder of the job, verified there by one digest over everything, and moved to its final names in
one rename each. A bundle is made out of an older one that the device still has: only files that differ travel.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from engine.contract.errors import ConfigError, TransferError
from engine.locking import one_of
from engine.places import cache_root, state_root

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Bytes that are read and handed to the link at a time; the lease is checked before each.
CHUNK_BYTES = 256 * 1024
#: Names of files that an older bundle has and the new one has not; more is not worth the older one.
MAX_DROPPED_BYTES = 16 * 1024
#: File lists of bundles that the host remembers.
MAX_MANIFESTS = 500
#: Pushes from this host at the same time.
PUSHES_VARIABLE = "LOCKSTEP_PUSHES"
DEFAULT_PUSHES = 2
_BLOCK = 512
_DIGEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Blob:
    """One host file to bring to a device, named by the SHA-256 of its bytes."""

    path: Path
    sha256: str
    size: int
    executable: bool = False


@dataclass(frozen=True)
class BundleFiles:
    """One engine build: ``digest`` stands for all names, bytes and modes of ``files`` (path inside the bundle first).

    Raises ConfigError for a name that leaves the bundle or holds control characters or a backslash.
    """

    digest: str
    files: Mapping[str, Blob]

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise ConfigError(f"{self.digest!r} is no bundle digest", hint="letters, digits, dot, dash, underscore")
        for name in self.files:
            pure = PurePosixPath(name)
            if str(pure) != name or pure.is_absolute() or ".." in pure.parts or not name.isprintable() or "\\" in name:
                raise ConfigError(
                    f"bundle file {name!r} has no plain relative name", hint="rename it in `files` of the engine"
                )


@dataclass(frozen=True)
class Order:
    """What a job needs: ``blobs`` by their name on the device, and a bundle."""

    blobs: Mapping[str, Blob]
    bundle: BundleFiles | None = None

    @classmethod
    def of(cls, blobs: Iterable[Blob], bundle: BundleFiles | None) -> Order:
        """Blobs given twice travel once."""
        return cls({f"blobs/{blob.sha256}": blob for blob in blobs}, bundle)

    def sizes(self) -> dict[str, int]:
        """Name on the device -> bytes."""
        sizes = {name: blob.size for name, blob in self.blobs.items()}
        if self.bundle is not None:
            sizes[f"bundles/{self.bundle.digest}"] = sum(blob.size for blob in self.bundle.files.values())
        return sizes


@dataclass(frozen=True)
class Stock:
    """What a device answered: what it lacks and, if anything, how it could get it.

    ``free`` and ``kept`` are bytes (room left; taken by blobs and bundles), ``bundles`` digests that it has, the last
    used first; ``tar`` is False where files must travel one by one.
    """

    missing: frozenset[str] = frozenset()
    free: int = 0
    kept: int = 0
    bundles: tuple[str, ...] = ()
    tar: bool = True


@dataclass(frozen=True)
class Parcel:
    """What travels, by its name in the staging folder: ``blobs/SHA256`` and ``bundle/NAME``.

    ``base`` is the device's bundle that the rest is taken from (empty: none), without its files ``dropped``;
    ``contents`` is all that the staging folder must hold in the end: name -> SHA-256, ``whole`` bytes together,
    ``bundle_bytes`` of them in the bundle.
    """

    files: Mapping[str, Blob]
    contents: Mapping[str, str]
    whole: int
    bundle_bytes: int = 0
    digest: str = ""
    base: str = ""
    dropped: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files that travel."""
        return sum(blob.size for blob in self.files.values())

    @property
    def tree(self) -> str:
        """One SHA-256 over the sorted lines that ``sha256sum`` prints for all files of the staging folder."""
        lines = sorted(f"{sha256}  ./{name}\n".encode() for name, sha256 in self.contents.items())
        return hashlib.sha256(b"".join(lines)).hexdigest()


def plan(order: Order, stock: Stock) -> Parcel:
    """The least that brings ``order`` to a device with ``stock``."""
    files = {name: blob for name, blob in order.blobs.items() if name in stock.missing}
    everything, bundle = dict(files), order.bundle
    if bundle is None or f"bundles/{bundle.digest}" not in stock.missing:
        return _parcel(files, everything)
    base, same, dropped = _base(bundle, stock.bundles) if stock.tar else ("", frozenset(), ())
    files |= {f"bundle/{name}": blob for name, blob in bundle.files.items() if name not in same}
    everything |= {f"bundle/{name}": blob for name, blob in bundle.files.items()}
    parcel = _parcel(files, everything)
    size = order.sizes()[f"bundles/{bundle.digest}"]
    return replace(parcel, digest=bundle.digest, bundle_bytes=size, base=base, dropped=dropped)


def _parcel(files: Mapping[str, Blob], everything: Mapping[str, Blob]) -> Parcel:
    contents = {name: blob.sha256 for name, blob in everything.items()}
    return Parcel(files, contents, sum(blob.size for blob in everything.values()))


def _base(bundle: BundleFiles, candidates: Iterable[str]) -> tuple[str, frozenset[str], tuple[str, ...]]:
    """The bundle of the device that saves most: its digest, the names that stay, the names that must go."""
    best: tuple[int, str, frozenset[str], tuple[str, ...]] = (0, "", frozenset(), ())
    for digest in candidates:
        known = recall(digest)
        same = frozenset(
            name for name, blob in bundle.files.items() if known.get(name) == (blob.sha256, blob.executable)
        )
        dropped = tuple(sorted(known.keys() - same))
        saved = sum(bundle.files[name].size for name in same)
        if saved > best[0] and sum(len(name.encode()) + 3 for name in dropped) <= MAX_DROPPED_BYTES:
            best = (saved, digest, same, dropped)
    return best[1:]


# -- what the host remembers of bundles it has sent --------------------------------------------------


def remember(bundle: BundleFiles) -> None:
    """Keep the file list of a bundle under its digest, so that a later one can be made from it."""
    folder = _manifests()
    path = folder / f"{bundle.digest}.json"
    if path.is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{bundle.digest}.{secrets.token_hex(4)}.part"
    part.write_text(json.dumps({name: [blob.sha256, blob.executable] for name, blob in bundle.files.items()}))
    part.replace(path)
    known = sorted(folder.glob("*.json"), key=_age)
    for old in known[:-MAX_MANIFESTS]:
        old.unlink(missing_ok=True)


def recall(digest: str) -> dict[str, tuple[str, bool]]:
    """Name -> (SHA-256, executable) of a bundle that this host has sent; empty for any other."""
    if not _DIGEST.fullmatch(digest):
        return {}
    try:
        entries = json.loads((_manifests() / f"{digest}.json").read_text())
        return {name: (str(sha256), bool(executable)) for name, (sha256, executable) in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _manifests() -> Path:
    return cache_root() / "manifests"


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# -- how many push at once -------------------------------------------------------------------------


def push_slot(guard: Callable[[], None]) -> AbstractContextManager[None]:
    """One of the places to push at the same time from this host: ``LOCKSTEP_PUSHES``, 2 unless set.

    ``guard`` is called while it waits. More pushes at once than the host's links carry only make all of them slow.
    """
    asked = os.environ.get(PUSHES_VARIABLE, "")
    if asked and not re.fullmatch(r"[1-9][0-9]{0,2}", asked):
        raise ConfigError(f"{PUSHES_VARIABLE}={asked!r} is no number of pushes", hint="give 1 to 999")
    return one_of(state_root() / "pushes", int(asked or DEFAULT_PUSHES), guard)


# -- one tar, as small as the format allows --------------------------------------------------------


def tar_stream(files: Mapping[str, Blob], guard: Callable[[], None]) -> Iterator[bytes]:
    """A tar archive of ``files`` in pieces; ``guard`` is called before each.

    It ends with the two empty blocks that every tar asks for, and is not filled up to 10 KiB. TransferError when a
    file is not what its Blob says.
    """
    piece = bytearray()
    for name, blob in files.items():
        piece += _header(name, blob)
        for data in bytes_of(blob):
            piece += data
            if len(piece) >= CHUNK_BYTES:
                guard()
                yield bytes(piece)
                piece.clear()
        piece += bytes(-blob.size % _BLOCK)
    guard()
    yield bytes(piece + bytes(2 * _BLOCK))


def tar_bytes(files: Mapping[str, Blob]) -> int:
    """No less than the tar of ``files`` takes; a name longer than a header holds takes two blocks more."""
    return sum(blob.size + (4 + len(name.encode()) // _BLOCK) * _BLOCK for name, blob in files.items()) + 2 * _BLOCK


def _header(name: str, blob: Blob) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = blob.size, 0o755 if blob.executable else 0o644
    return entry.tobuf(tarfile.GNU_FORMAT)


def bytes_of(blob: Blob) -> Iterator[bytes]:
    """A file in pieces of at most ``CHUNK_BYTES``; TransferError when it is not what its Blob says."""
    try:
        with blob.path.open("rb", buffering=0) as stream:
            if os.fstat(stream.fileno()).st_size != blob.size:
                raise _changed(blob)
            left = blob.size
            while left:
                data = stream.read(min(left, CHUNK_BYTES))
                if not data:
                    raise _changed(blob)
                left -= len(data)
                yield data
    except OSError as error:
        raise TransferError(
            f"cannot read {blob.path}: {error.strerror or error}", hint="the file was there when the run was planned"
        ) from error


def _changed(blob: Blob) -> TransferError:
    return TransferError(
        f"{blob.path.name} has not the {blob.size} bytes it had when the run was planned", hint="run again"
    )


class Pieces(io.RawIOBase):
    """Pieces as a file that is read once, for links that want one."""

    def __init__(self, source: Iterator[bytes]) -> None:
        super().__init__()
        self._source, self._left = source, b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Fill ``buffer`` with what is there; 0 at the end, None after an empty piece: there is nothing yet."""
        if not self._left:
            piece = next(self._source, None)
            if not piece:
                return None if piece is not None else 0
            self._left = piece
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._left))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
