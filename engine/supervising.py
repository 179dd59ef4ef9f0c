"""What supervisors of a service need: files that only the user reads, and children that end with their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
#: Loaded before any fork: between fork and exec nothing may be imported.
_LIBC = ctypes.CDLL(None)


def write_private(path: Path, text: str) -> None:
    """Write ``path`` with mode 0600, whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
        stream.write(text)
    temporary.replace(path)


def end_with_parent() -> None:
    """In the child before exec: the kernel kills it when the supervisor dies (Linux)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
