"""Processes known by number and start time: a number alone may belong to somebody else by now."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

_GRACE_SECONDS = 10


def start_time(pid: int) -> int:
    """Clock ticks since boot (field 22 of /proc/PID/stat); 0 when there is no such process, or only its corpse."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def children(pid: int) -> list[int]:
    """Of the process's first thread."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def end(pid: int, started: int) -> None:
    """Wait for the process that began at ``started``; kill it when it stays."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if start_time(pid) == started and not select.select([handle], [], [], _GRACE_SECONDS)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], _GRACE_SECONDS)
    finally:
        os.close(handle)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
