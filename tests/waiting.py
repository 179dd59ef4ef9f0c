"""Waiting for what another process does: patiently, since a loaded machine is slow and not wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 60.0

Answer = TypeVar("Answer")


def wait_until(
    condition: Callable[[], Answer], words: str = "waited in vain", *, over: threading.Event | None = None
) -> Answer:
    """The first true answer of ``condition``; fails with ``words`` when there is none, or ``over`` is set first."""
    end = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < end, f"{words} ({PATIENCE} s)"
        assert over is None or not over.is_set(), "what was to bring it about ended first"
        time.sleep(0.01)
    return answer
