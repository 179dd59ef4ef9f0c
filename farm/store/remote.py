"""Blobs on storage that several hosts reach. Sole importer of fsspec.

``LOCKSTEP_BLOBS_URL`` names the folder, ``file:///srv/lockstep/blobs`` or ``sftp://farm.lab/srv/lockstep/blobs``, or
any other that fsspec knows once its package is installed (``s3://bucket/blobs`` with s3fs). A blob there is whole or
absent, and is checked against its name when it comes back.
"""

from __future__ import annotations

import functools
import secrets
from pathlib import Path
from typing import Any

import fsspec
from fsspec.registry import get_filesystem_class

from engine.contract.errors import ConfigError, StoreError
from farm.secrets import redact, remember
from farm.store.blobs import URL_VARIABLE

#: Where a half-written file would be seen under its name, and renaming is one step.
RENAMING = ("file", "local", "sftp", "ssh", "smb")


@functools.cache
def remote_at(url: str) -> RemoteBlobs:
    """One connection a process and URL."""
    return RemoteBlobs(url)


def _checked_sftp() -> Any:
    from farm.store.sftp import CheckedSftp  # noqa: PLC0415 - paramiko is slow to import

    return CheckedSftp


class RemoteBlobs:
    """The blobs of one URL: ``URL/ab/abcdef…``. Connects when first used."""

    def __init__(self, url: str) -> None:
        self.url = url
        remember(url)
        protocol = fsspec.core.split_protocol(url)[0]
        if protocol is None:
            raise ConfigError(f"{URL_VARIABLE}: {redact(url)} is no URL", hint="for example file:///srv/lockstep/blobs")
        self._protocol = str(protocol)
        try:
            self._kind = _checked_sftp() if protocol in ("sftp", "ssh") else get_filesystem_class(protocol)
        except (ValueError, ImportError) as error:
            raise ConfigError(
                f"{URL_VARIABLE}: {error}", hint="file:// and sftp:// need nothing; for others install the package"
            ) from error
        self._open: tuple[Any, str] | None = None

    def has(self, sha256: str) -> bool:
        """True when the blob is there."""
        try:
            files, root = self._files()
            return bool(files.exists(f"{root}/{sha256[:2]}/{sha256}"))
        except Exception as error:
            raise self._unusable(error) from error

    def put(self, source: Path, sha256: str) -> None:
        """Copy a file there unless it is there; it appears whole."""
        if self.has(sha256):
            return
        try:
            files, root = self._files()
            final = f"{root}/{sha256[:2]}/{sha256}"
            files.makedirs(f"{root}/{sha256[:2]}", exist_ok=True)
            if self._protocol not in RENAMING:  # an object store shows an object when it is complete
                files.put_file(str(source), final)
                return
            part = f"{root}/{sha256[:2]}/.{sha256}.{secrets.token_hex(4)}.part"
            try:
                files.put_file(str(source), part)
                files.mv(part, final)
            finally:
                if files.exists(part):
                    files.rm_file(part)
        except Exception as error:
            raise self._unusable(error) from error

    def get(self, sha256: str, target: Path) -> bool:
        """Copy the blob to ``target``, unchecked; False when it is not there."""
        try:
            files, root = self._files()
            files.get_file(f"{root}/{sha256[:2]}/{sha256}", str(target))
        except FileNotFoundError:
            return False
        except Exception as error:
            raise self._unusable(error) from error
        return True

    def _files(self) -> tuple[Any, str]:
        if self._open is None:
            options = self._kind._get_kwargs_from_urls(self.url)
            options.pop("path", None)
            self._open = self._kind(**options), str(self._kind._strip_protocol(self.url)).rstrip("/")
        return self._open

    def _unusable(self, error: Exception) -> StoreError:
        """fsspec's file systems raise whatever their libraries raise: here it becomes words."""
        self._open = None  # a connection that broke is made anew
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return StoreError(
            f"blobs at {redact(self.url)}: {redact(reason)}",
            hint=f"is {URL_VARIABLE} right, and may you write there?",
        )
