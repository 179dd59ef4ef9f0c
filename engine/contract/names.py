"""Names that come from models, made safe for a file system."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from engine.contract.errors import RunnerNonsense


def inside(folder: Path, relative: str) -> Path:
    """``folder / relative`` if it stays inside ``folder``; what a device names is never trusted."""
    pure = PurePosixPath(relative)
    if not relative or pure.is_absolute() or ".." in pure.parts or "\\" in relative or "\0" in relative:
        raise RunnerNonsense(f"the runner names a file outside its folder: {relative!r}")
    path = folder / pure
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RunnerNonsense(f"the runner names a file outside its folder: {relative!r}")
    return path
