"""Files kept by content: the name of a blob is the SHA-256 of its bytes, and it is there whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from engine.contract.errors import InfraError, StorageFull, StoreError
from engine.digest import file_sha256
from engine.places import cache_root
from farm.secrets import read_secret, redact

if TYPE_CHECKING:
    from farm.store.remote import RemoteBlobs

URL_VARIABLE = "LOCKSTEP_BLOBS_URL"
CHUNK = 1 << 20
SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """A folder of blobs, ``root/ab/abcdef…``; several processes may use it at once.

    With a ``remote`` the folder is the cache before it: what is put goes to both, what is missing is fetched.
    """

    def __init__(self, root: Path | None = None, remote: RemoteBlobs | None = None) -> None:
        self.root = root or cache_root() / "blobs"
        self.remote = remote

    @classmethod
    def configured(cls) -> BlobStore:
        """The cache's own folder, before the storage of ``LOCKSTEP_BLOBS_URL`` if that is set."""
        url = read_secret(URL_VARIABLE)
        if not url:
            return cls()
        from farm.store.remote import remote_at  # noqa: PLC0415 - most commands need no remote storage

        return cls(remote=remote_at(url))

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
        self._publish(self.path(digest), digest)
        return digest

    def put_file(self, source: Path, expected: str | None = None) -> str:
        """Keep a copy of ``source``; returns its SHA-256, ``StoreError`` unless it is ``expected``."""
        if expected is None or not self.has(expected):
            with source.open("rb") as incoming:
                expected = self._place(lambda stream: _copy(incoming, stream), expected)
        self._publish(self.path(expected), expected)
        return expected

    def share_file(self, source: Path, expected: str) -> None:
        """Bring a file of the cache to the remote without keeping a second copy here."""
        if self.remote is not None and not self.remote.has(expected):
            if file_sha256(source) != expected:
                raise _another(expected, file_sha256(source))
            self._publish(source, expected)

    def _publish(self, source: Path, sha256: str) -> None:
        if self.remote is not None:
            self.remote.put(source, sha256)

    def get(self, sha256: str) -> Path:
        """The blob's path after its bytes were checked; a damaged blob is removed. ``StoreError`` when absent."""
        path = self.path(sha256)
        damaged = path.is_file() and file_sha256(path) != sha256
        if damaged:
            path.unlink(missing_ok=True)
        if path.is_file() or self._fetch(sha256):
            return path
        what = "was damaged on disk and is removed" if damaged else f"is not in {self.root}"
        elsewhere = f" nor at {redact(self.remote.url)}" if self.remote is not None else ""
        raise StoreError(f"blob {sha256[:12]}… {what}{elsewhere}", hint="run the command again to make it")

    def _fetch(self, sha256: str) -> bool:
        """Bring the blob from the remote; False when it is not there."""
        if self.remote is None:
            return False
        remote = self.remote
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(prefix=".new-", dir=self.root)
        except OSError as error:
            raise _in_words(error, self.root) from error
        with scratch as folder:
            incoming = Path(folder) / sha256
            if not remote.get(sha256, incoming):
                return False
            with incoming.open("rb") as stream:
                self._place(lambda outgoing: _copy(stream, outgoing), sha256)
        return True

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
                raise _another(expected, digest)
            final = self.path(digest)
            final.parent.mkdir(exist_ok=True)
            temporary.replace(final)
        except OSError as error:
            raise _in_words(error, self.root) from error
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
        return digest


def _another(expected: str, digest: str) -> StoreError:
    return StoreError(
        f"expected a file with SHA-256 {expected[:12]}…, got {digest[:12]}…",
        hint="the source changed or is damaged: fetch it again",
    )


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
