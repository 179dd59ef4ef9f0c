"""Files kept by content: the name of a blob is the SHA-256 of its bytes, and it is there whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from engine.contract.errors import InfraError, StorageFull, StoreError
from engine.digest import file_sha256
from engine.places import cache_root

CHUNK = 1 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """A folder of blobs, ``root/ab/abcdef…``; several processes may use it at once."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_root() / "blobs"

    def path(self, sha256: str) -> Path:
        """Where the blob is or would be; ``StoreError`` for what is no digest."""
        if not SHA256.fullmatch(sha256):
            raise StoreError(f"{sha256!r} is no SHA-256", hint="give 64 lower-case hexadecimal digits")
        return self.root / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """True when the blob is there."""
        return self.path(sha256).is_file()

    def put_bytes(self, data: bytes) -> str:
        """Keep ``data``; returns its SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        if not self.has(digest):
            self._place(lambda stream: digest if stream.write(data) == len(data) else "", expected=digest)
        return digest

    def put_file(self, source: Path, expected: str | None = None) -> str:
        """Keep a copy of ``source``; returns its SHA-256, ``StoreError`` unless it is ``expected``."""
        if expected is not None and self.has(expected):
            return expected
        with source.open("rb") as incoming:
            return self._place(lambda stream: _copy(incoming, stream), expected)

    def get(self, sha256: str) -> Path:
        """The blob's path after its bytes were checked; a damaged blob is removed. ``StoreError`` when absent."""
        path = self.path(sha256)
        if not path.is_file():
            raise StoreError(f"blob {sha256[:12]}… is not in {self.root}", hint="run the command again to make it")
        if file_sha256(path) != sha256:
            path.unlink(missing_ok=True)
            raise StoreError(
                f"blob {sha256[:12]}… was damaged on disk and is removed", hint="run the command again to make it"
            )
        return path

    def _place(self, fill: Callable[[IO[bytes]], str], expected: str | None) -> str:
        """Write to a temporary file beside the blobs, then give it its name in one step."""
        temporary: Path | None = None
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.root, prefix=".new-", delete=False) as stream:
                temporary = Path(stream.name)
                digest = fill(stream)
                stream.flush()
                os.fsync(stream.fileno())
            if expected is not None and digest != expected:
                raise StoreError(
                    f"expected a file with SHA-256 {expected[:12]}…, got {digest[:12]}…",
                    hint="the source changed or is damaged: fetch it again",
                )
            final = self.path(digest)
            final.parent.mkdir(exist_ok=True)
            temporary.replace(final)
        except OSError as error:
            raise _in_words(error, self.root) from error
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
        return digest


def _copy(incoming: IO[bytes], outgoing: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := incoming.read(CHUNK):
        digest.update(chunk)
        outgoing.write(chunk)
    return digest.hexdigest()


def _in_words(error: OSError, root: Path) -> InfraError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFull(f"{root}: no room left", hint="free some space, or set LOCKSTEP_CACHE to another disk")
    return StoreError(f"{root}: {error.strerror}", hint="set LOCKSTEP_CACHE to a writable folder")
