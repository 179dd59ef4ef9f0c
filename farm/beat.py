"""The night: ``sweeps.yaml`` says when, Celery beat keeps the time, a sweep is started as a process of its own.

::

    timezone: Europe/Berlin
    sweeps:
      - {name: nightly, at: "02:30", days: [mon, tue, wed, thu, fri]}
      - {name: weekend, at: "01:00", days: [sat], arguments: [--profile, bitexact]}

Beat keeps in ``STATE/beat`` when each entry was last due: what a machine slept through is started when it is up again.
What a crash cut off is gone on with. Beat itself needs no broker.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from zoneinfo import available_timezones

from pydantic import Field, field_validator, model_validator

from engine.contract.errors import BrokerError, InfraError, StoreError
from farm import tasks
from farm.broker import choose_broker
from farm.config import Strict, load
from farm.driving import alone, place
from farm.jobs import RunView
from farm.store import Store
from farm.store.runs import is_driven
from farm.sweeps import interrupted

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
END_SECONDS = 30.0
GO_ON = "-unfinished"  # no entry can be called so
GO_ON_SECONDS = 600
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
        elif self.busy:
            log.warning("sweep=%s is due, but the one before still runs: left out", name)
        else:
            self._start(name, "--entry", name, *self._arguments[name])

    @property
    def busy(self) -> bool:
        """Whether one that it started still runs."""
        return self._child is not None and self._child.poll() is None

    def resume(self, sweep: RunView) -> None:
        """Go on with a sweep that an entry began."""
        log.info("sweep=%s was cut off this night: going on with %s", sweep.payload["entry"], sweep.id)
        self._start(sweep.payload["entry"], "--resume", sweep.id)

    def _start(self, name: str, *words: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / f"sweep-{name}.log").open("ab") as output:
            self._child = subprocess.Popen(
                [*self._command, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
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


def run_beat(schedule: Schedule, command: Sequence[str], state: Path, look: int = GO_ON_SECONDS) -> None:
    """Start sweeps when they are due, and go on with what was cut off this night, until SIGTERM or Ctrl-C.

    A sweep that runs then is ended. What was cut off is looked for at once, and again every ``look`` seconds.
    ``ConfigError`` for a broker or a store that cannot be.
    """
    check_broker(state)
    starter = Starter(schedule, command, state / "logs")
    entries = [entry.name for entry in schedule.sweeps]

    def due(name: str) -> None:
        if name == GO_ON:
            go_on(starter, state, entries)
        else:
            starter(name)

    due(GO_ON)
    try:
        tasks.beat({**schedule.moments(), GO_ON: tasks.Moment(look, 0, 0)}, schedule.timezone, state / "beat", due)
    finally:
        starter.stop()


def go_on(starter: Starter, state: Path, entries: Sequence[str]) -> None:
    """Go on with the unfinished sweep of this night that one of ``entries`` began, unless a sweep runs."""
    if starter.busy:
        return
    try:
        with Store() as store:
            sweep = interrupted_here(store, state, entries)
    except StoreError as error:
        log.warning("what was cut off this night is not known: %s", error.message)
        return
    if sweep is not None:
        starter.resume(sweep)


def check_broker(state: Path) -> None:
    """Tell now, and not at night, what is wrong with the broker; one that is only away may be back by then."""
    broker = choose_broker(state)
    try:
        if not broker.embedded:
            broker.ensure()
    except BrokerError as error:
        log.warning("%s; a sweep that is due meanwhile does not run: %s", error.message, error.hint)


def interrupted_here(store: Store, state: Path, entries: Sequence[str]) -> RunView | None:
    """The unfinished sweep of this night that one of ``entries`` began, when it is certain that nothing drives it."""
    sweep = interrupted(store, entries)
    if sweep is None:
        return None
    try:
        with alone(state) as here:
            driven = sweep.driver != here and is_driven(sweep, store.clock())
    except InfraError as error:
        log.info("sweep %s is unfinished, but %s", sweep.id, error.message)
        return None
    if driven:
        log.info("sweep %s is unfinished, but driven from %s", sweep.id, place(sweep.driver))
    return None if driven else sweep
