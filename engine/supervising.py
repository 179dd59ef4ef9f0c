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
    """The path of a Unix socket, for a ``folder`` that only its user may enter; empty where it is too long for one."""
    path = str(folder / name)
    return path if len(os.fsencode(path)) <= MAX_SOCKET_PATH else ""


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_with_parent() -> None:
    """In the child before exec: the kernel kills it when the supervisor dies (Linux)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
