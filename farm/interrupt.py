"""Ends the program on a device as soon as its job is taken away, be it cancelled, timed out or its lease lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agents.base import Agent
from engine.contract.errors import LeaseLost
from farm.jobs import Guard
from farm.ticking import ticking

LOOK_SECONDS = 0.2


@contextmanager
def interruptible(agent: Agent, guard: Guard) -> Iterator[None]:
    """Watch ``guard`` from a thread while the block runs: a runner that hangs never comes to ask it itself."""

    def watch() -> bool:
        try:
            guard()
        except LeaseLost:
            agent.interrupt()
            return False
        return True

    with ticking("interrupt", LOOK_SECONDS, watch):
        yield
