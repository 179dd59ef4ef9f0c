"""Ending a process: what the faults and the devices both do."""

from __future__ import annotations

import os
import signal


def kill(pid: int) -> None:
    """SIGKILL."""
    os.kill(pid, signal.SIGKILL)
