"""Where a gate tells what it does, and the clock of its phases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import click

from farm.jobs import RunUpdate
from farm.progress import RunProgress


def _ignore(_: object) -> None:
    """Say nothing."""


@dataclass
class Console:
    """A line for each step, and a callback that is told of jobs."""

    say: Callable[[str], None] = _ignore
    jobs: Callable[[RunUpdate], None] = _ignore

    @classmethod
    @contextmanager
    def for_terminal(cls, quiet: bool) -> Iterator[Self]:
        """Progress on stderr: live for a person, line by line for a log, nothing when quiet."""
        if quiet:
            yield cls()
            return
        with RunProgress() as progress:
            yield cls(say=lambda text: click.echo(click.style(f"  {text}", dim=True), err=True), jobs=progress)


@dataclass
class Phases:
    """Seconds per phase, in order; ``say`` is told when one begins."""

    say: Callable[[str], None] = _ignore
    taken: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase."""
        self.say(name)
        begun = time.monotonic()
        try:
            yield
        finally:
            self.taken.append((name, time.monotonic() - begun))
