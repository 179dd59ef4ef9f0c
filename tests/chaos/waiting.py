"""Waiting for a condition, and ending a process: what the scenario and its devices both do."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

PATIENCE = 60.0


def kill(pid: int) -> None:
    """SIGKILL."""
    os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], object], over: threading.Event | None = None) -> None:
    """Return once ``condition`` holds; fails when that does not come, or the run is over first."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        assert over is None or not over.is_set(), "the run ended before the moment came"
        time.sleep(0.01)
