"""Ends the program on a device as soon as its job is taken away, be it cancelled, timed out or its lease lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agents.base import Agent
from engine.contract.errors import LeaseLost
from farm.jobs import Guard

LOOK_SECONDS = 0.2


@contextmanager
def interruptible(agent: Agent, guard: Guard) -> Iterator[None]:
    """Watch ``guard`` from a thread while the block runs: a runner that hangs never comes to ask it itself."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            try:
                guard()
            except LeaseLost:
                agent.interrupt()
                return

    thread = threading.Thread(target=watch, name="interrupt", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
