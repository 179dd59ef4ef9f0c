"""Deployment into a folder of this host: the same rules as on a device with a shell, in Python."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from agents.deployment import Order, Parcel, Stock
from engine.contract.errors import TransferError
from engine.digest import file_sha256

#: A job's folder of no known holder is over after this time.
STALE_SECONDS = 24 * 3600.0


def stock(root: Path, order: Order, token: int, cap_bytes: int, reserve: int) -> Stock:
    """What the folder lacks of ``order``; leftovers and what is over its cap go."""
    _clear_jobs(root, token)
    sizes = order.sizes()
    missing = frozenset(name for name, size in sizes.items() if not _whole(root / name, size))
    for name in missing:
        _delete(root / name)
    for name in sizes.keys() - missing:
        os.utime(root / name)
    if not missing:
        return Stock()
    return Stock(missing, *_evict(root, sizes, sum(sizes[name] for name in missing), cap_bytes, reserve))


def make_room(root: Path, token: int, cap_bytes: int, reserve: int) -> None:
    """What ``stock`` does, for a job that needs nothing."""
    _clear_jobs(root, token)
    _evict(root, (), 0, cap_bytes, reserve)


def _evict(root: Path, needed: Collection[str], need: int, cap_bytes: int, reserve: int) -> tuple[int, int]:
    """Drop the least recently used that is not ``needed`` until ``need`` more bytes fit. Bytes free, and kept."""
    kept = {entry: _size(entry) for place in ("blobs", "bundles") for entry in (root / place).iterdir()}
    for entry in sorted(kept, key=lambda path: path.stat().st_mtime):
        if sum(kept.values()) + need <= cap_bytes and shutil.disk_usage(root).free >= need + reserve:
            break
        if str(entry.relative_to(root)) not in needed:
            _delete(entry)
            del kept[entry]
    return shutil.disk_usage(root).free, sum(kept.values())


def publish(device: str, root: Path, staging: Path, parcel: Parcel) -> None:
    """Verify the staging folder, then give everything its final name. TransferError when a hash differs."""
    for name, sha256 in parcel.contents.items():
        arrived = file_sha256(staging / name)
        if arrived != sha256:
            raise TransferError(
                f"{device}: {Path(name).name} arrived with sha256 {arrived[:12]}…, sent was {sha256[:12]}…",
                hint="the storage is faulty, or the file has changed here; `lockstep devices --probe`, then try again",
                device=device,
            )
    for name in parcel.files:
        if name.startswith("blobs/"):
            (staging / name).replace(root / name)
    if parcel.digest:
        final = root / "bundles" / parcel.digest
        try:
            (staging / "bundle").rename(final)
        except OSError:
            if not final.is_dir():
                raise
            # The same build was placed meanwhile by another user of this folder, who may run it already: it stays
            _delete(staging / "bundle")


def _clear_jobs(root: Path, token: int) -> None:
    """Folders of attempts that are over, and what still runs in them."""
    long_ago = time.time() - STALE_SECONDS
    for job in (root / "jobs").iterdir():
        owner, _, _ = job.name.partition(".")
        earlier = owner.isascii() and owner.isdigit() and 0 < int(owner[:18]) < token
        if earlier:
            for pid in _running_in(job):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        if earlier or job.lstat().st_mtime < long_ago:
            _delete(job)


def _running_in(folder: Path) -> Iterator[int]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if (process / "cwd").readlink().is_relative_to(folder.resolve()):
                    yield int(process.name)


def _whole(entry: Path, size: int) -> bool:
    """Whether a blob has its bytes; a bundle may have more, as engines write beside themselves."""
    found = _size(entry)
    return entry.exists() and (found >= size if entry.is_dir() else found == size)


def _size(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else [entry]
    return sum(file.stat().st_size for file in files if file.is_file())


def _delete(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink(missing_ok=True)
