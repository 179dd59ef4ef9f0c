"""The night: ``sweeps.yaml`` says when, Celery beat keeps the time, a sweep is started as a process of its own.

::

    timezone: Europe/Berlin
    sweeps:
      - {name: nightly, at: "02:30", days: [mon, tue, wed, thu, fri]}
      - {name: weekend, at: "01:00", days: [sat], arguments: [--profile, bitexact]}

Beat keeps in ``STATE/beat`` when each entry was last due: what a machine slept through is started when it is up again.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from zoneinfo import available_timezones

from pydantic import Field, field_validator, model_validator

from engine.contract.errors import BrokerError
from farm import tasks
from farm.broker import choose_broker
from farm.config import Strict, load
from farm.watch import BrokerWatch

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
END_SECONDS = 30.0
log = logging.getLogger("lockstep.beat")


class Entry(Strict):
    """One sweep and when: ``at`` a time of day (on ``days``, every day if none is given), or ``every`` so many seconds.

    ``arguments`` are those of ``lockstep sweep``.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$")
    at: str | None = Field(default=None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$")
    days: tuple[Day, ...] = ()
    every: int | None = Field(default=None, ge=1)
    arguments: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_time(self) -> Entry:
        if (self.at is None) == (self.every is None):
            raise ValueError("give exactly one of at, every")
        if self.every is not None and self.days:
            raise ValueError("days go with at")
        return self


class Schedule(Strict):
    """``sweeps.yaml``."""

    timezone: str = "UTC"
    sweeps: tuple[Entry, ...] = Field(min_length=1)

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in available_timezones():
            raise ValueError(f"unknown timezone {name!r}; for example Europe/Berlin")
        return name

    @field_validator("sweeps")
    @classmethod
    def _unique(cls, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        names = [entry.name for entry in entries]
        if len(names) != len(set(names)):
            raise ValueError("two sweeps have the same name")
        return entries

    def moments(self) -> dict[str, tasks.Moment]:
        """When each entry is due, by name, as ``tasks.beat`` takes it."""
        moments = {}
        for entry in self.sweeps:
            hour, minute = map(int, entry.at.split(":")) if entry.at else (0, 0)
            moments[entry.name] = tasks.Moment(entry.every, hour, minute, entry.days)
        return moments


class Starter:
    """Starts the sweep of an entry unless one that it started still runs; never waits for it."""

    def __init__(self, schedule: Schedule, command: Sequence[str], folder: Path) -> None:
        self._arguments = {entry.name: entry.arguments for entry in schedule.sweeps}
        self._command = list(command)
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def __call__(self, name: str) -> None:
        """The entry ``name`` is due."""
        if name not in self._arguments:
            log.warning("sweep=%s is not in the schedule any more: left out", name)
        elif self._child is not None and self._child.poll() is None:
            log.warning("sweep=%s is due, but the one before still runs: left out", name)
        else:
            words = [*self._command, *self._arguments[name]]
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self._folder / f"sweep-{name}.log").open("ab") as output:
                self._child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            log.info("sweep=%s started as process %d", name, self._child.pid)
            threading.Thread(target=self._tell, args=(name, self._child), daemon=True).start()

    def stop(self) -> None:
        """End a sweep that runs; it can be gone on with."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()

    @staticmethod
    def _tell(name: str, child: subprocess.Popen[bytes]) -> None:
        log.info("sweep=%s ended with exit code %d", name, child.wait())


def load_schedule(path: Path) -> Schedule:
    """Read ``sweeps.yaml``; ``ConfigError`` with file, key and reason."""
    return load(path, Schedule)


def run_beat(schedule: Schedule, command: Sequence[str], state: Path) -> None:
    """Start sweeps when they are due, until SIGTERM or Ctrl-C; ``BrokerError`` when the broker goes away."""
    starter = Starter(schedule, command, state / "logs")
    lost, over = threading.Event(), threading.Event()

    def leave() -> None:
        if not over.is_set():  # a broker of our own ends with us
            lost.set()
            os.kill(os.getpid(), signal.SIGTERM)

    with choose_broker(state) as broker:
        BrokerWatch(broker.url, leave).start()
        try:
            tasks.beat(
                broker.url,
                f"lockstep-beat-{socket.gethostname()}",
                schedule.moments(),
                schedule.timezone,
                state / "beat",
                starter,
            )
        finally:
            over.set()
            starter.stop()
    if lost.is_set():
        raise BrokerError(
            "the broker went away", hint="start `lockstep sweep --beat` again; systemd does: Restart=always"
        )
