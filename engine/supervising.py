"""What supervisors of a service need: files and sockets of one user alone, and children that end with their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

#: Bytes: sun_path without its NUL.
MAX_SOCKET_PATH = 107
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


def socket_in(folder: Path, name: str) -> str:
    """The path of a Unix socket, for a ``folder`` that only its user may enter.

    Empty where it is too long for one, or the file system takes none (some shared and network ones).
    """
    path, trial = folder / name, folder / f".{os.getpid()}"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        return ""
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.bind(str(trial))
        trial.unlink()
        return str(path)
    return ""


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_with_parent() -> None:
    """In the child before exec: the kernel kills it when the supervisor dies (Linux)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
