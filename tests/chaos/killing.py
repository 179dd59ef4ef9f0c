"""Ending processes, and what the kernel says of them: what the faults and the devices both need."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.waiting import wait_until

#: As in /proc: it has ended, be it that nobody asked yet how.
_OVER = ("Z", "X", "")


def kill(pid: int) -> None:
    """SIGKILL; returns once the process runs no more."""
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)


def wait_for_end(pid: int) -> None:
    """Return once the process runs no more."""
    wait_until(lambda: state_of(pid) in _OVER, f"process {pid} still runs")


def state_of(pid: int) -> str:
    """One letter: ``T`` is stopped, ``Z`` ended; empty when there is no such process."""
    return (_stat(pid) or [""])[0]


def parent_of(pid: int) -> int:
    """The number of its parent, 0 when there is no such process."""
    return int((_stat(pid) or ["", "0"])[1])


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
