"""The data of a run: what is planned, what the store answers, what an executor promises.

Plan and run, as the gate does it::

    with FarmSession(executor="farm.execution:execute_job") as farm:      # farm/session.py
        run_id = create_run(farm.store, RunSpec(...), [JobSpec(...), ...])  # farm/store/jobs.py
        summary = farm.run(run_id, on_update=show)

A job is one case on one device at one engine version (``role`` head or base).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from engine.contract.errors import LockstepError
from farm.secrets import redact

Guard = Callable[[], None]
"""Raises ``LeaseLost`` once the device belongs to another holder, or the job was cancelled or timed out."""

Executor = Callable[[dict[str, Any], Guard], dict[str, Any]]
"""``execute(spec, guard)``: ``spec`` is ``JobSpec.spec`` plus ``job`` (id), ``attempt`` (from 1) and
``token`` (of the lease; what a holder with a smaller one left on the device is removed first); the
answer must be JSON. Call ``guard`` before each step that touches the device."""


class JobStatus(StrEnum):
    """A job is queued or running until it ends, once, in one of the other three."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """True for a status that never changes again."""
        return self in ENDED


ENDED = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED})


class Role(StrEnum):
    """Why a job runs: the commit's own engine, the one before, a second look at a failure, or the same on the CPU."""

    HEAD = "head"
    BASE = "base"
    CONFIRM = "confirm"
    CPU = "cpu"


class Priority(IntEnum):
    """Whose jobs get a free device first: the smallest number (``docs/hosts.md``)."""

    PULL_REQUEST = 0
    INTERACTIVE = 5
    NIGHTLY = 9

    @property
    def word(self) -> str:
        """As the command line says it."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> Priority:
        """The priority that the command line calls ``word``."""
        return cls[word.upper().replace("-", "_")]


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run as planned; ``payload`` is JSON kept with it; an empty ``owner`` is who plans it.

    ``kind`` is gate, sweep or confirm; ``sweep``: the sweep that it is a part of. Of the payload the farm itself
    reads ``units``, the devices that can stand in for each other (``farm/store/units.py``), ``health``, how patient it
    is with a device that fails (``farm/health.py``), and ``confirms``, the run whose failures a confirmation repeats.
    """

    suite: str
    engine: str
    command: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    priority: int = Priority.INTERACTIVE
    owner: str = ""
    kind: str = "gate"
    sweep: str | None = None


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One job as planned.

    ``position`` orders the jobs of one device; ``cost`` (seconds, a guess) lets the device with the most work
    left go first; ``timeout`` (seconds) ends an attempt that gives no result; ``spec`` is JSON for the executor;
    ``queue`` is the queue of the host that reaches the device (empty: the run's own);
    ``content`` is a digest of what is run on what: of two jobs with the same one only one need run.
    ``spec["planned"]`` names the device that the job speaks for, where that is not the one it runs on.
    """

    case: str
    device: str
    role: Role = Role.HEAD
    position: int = 0
    cost: float = 1.0
    timeout: float = 600.0
    spec: Mapping[str, Any] = field(default_factory=dict)
    queue: str = ""
    content: str = ""


@dataclass(frozen=True, kw_only=True)
class JobError:
    """Why a job failed. ``status`` is a case status: crashed, unsupported or infra."""

    type: str
    message: str
    hint: str = ""
    status: str = "infra"
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: LockstepError) -> JobError:
        """The record of a known error; fields that are not JSON become text."""
        fields = json.loads(redact(json.dumps(error.fields, default=str)))
        return cls(
            type=type(error).__name__,
            message=redact(error.message),
            hint=redact(error.hint),
            status=error.status,
            fields=fields,
        )

    @classmethod
    def internal(cls, error: BaseException) -> JobError:
        """The record of an exception nobody expected; its traceback is in the worker's log only."""
        return cls(
            type="internal",
            message=redact(f"unexpected {type(error).__name__}: {error}"),
            hint="this is a fault of Lockstep; the worker's log has the traceback",
        )

    def to_json(self) -> dict[str, Any]:
        """As stored in the job table."""
        return {
            "type": self.type,
            "message": self.message,
            "hint": self.hint,
            "status": self.status,
            "fields": dict(self.fields),
        }


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One row of the job table. Times are UTC seconds since 1970; ``result`` only when ``done``.

    ``device`` is the unit it runs on. ``tries`` are its attempts, read together with the documents.
    """

    id: str
    run_id: str
    case: str
    device: str
    role: Role
    position: int
    cost: float
    timeout: float
    status: JobStatus
    attempts: int
    not_before: float
    dispatched: float | None
    created: float
    started: float | None
    finished: float | None
    spec: Mapping[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    error: JobError | None = None
    queue: str = ""
    content: str = ""
    tries: tuple[AttemptView, ...] = ()

    @property
    def planned(self) -> str:
        """The device that it was planned for and speaks for; needs the job's documents."""
        return str(self.spec.get("planned", self.device))

    @property
    def moved(self) -> str:
        """Why it runs on another unit than planned; needs the job's documents."""
        return str(self.spec.get("moved", ""))


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run with the numbers of its jobs by status. Times are UTC seconds since 1970.

    ``status``: running, done, cancelled or abandoned (the command that drove it died); a sweep is open until it is
    done. ``seen`` is the last sign of life of the command that drives it, ``driver`` names that: the session of a run,
    the place of a sweep (empty: nobody).
    """

    id: str
    kind: str
    suite: str
    engine: str
    command: str
    owner: str
    priority: int
    status: str
    driver: str
    created: float
    seen: float
    finished: float | None
    sweep: str | None
    payload: Mapping[str, Any]
    counts: Mapping[JobStatus, int]

    @property
    def total(self) -> int:
        """How many jobs were planned."""
        return sum(self.counts.values())

    @property
    def ended(self) -> int:
        """How many jobs have ended."""
        return sum(count for status, count in self.counts.items() if status.ended)


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One attempt at a job, kept for ever. ``outcome``: running, done, error, lost, timeout or cancelled;
    ``ended`` is None until the worker has stopped."""

    job_id: str
    number: int
    token: int
    worker: str
    started: float
    ended: float | None
    outcome: str
    error: JobError | None
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class RunUpdate:
    """What a progress display needs; its jobs carry neither spec nor result. ``notes`` say what keeps jobs waiting."""

    run_id: str
    jobs: tuple[JobView, ...]
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> Counter[JobStatus]:
        """How many jobs have each status."""
        return Counter(job.status for job in self.jobs)

    @property
    def ended(self) -> int:
        """How many jobs have ended."""
        return sum(job.status.ended for job in self.jobs)


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A finished run: every job has ended, with its result or its error."""

    run_id: str
    seconds: float
    jobs: tuple[JobView, ...]

    def of(self, case: str, device: str, role: Role = Role.HEAD) -> JobView | None:
        """The job of one case that speaks for one device, or None when it was not planned."""
        for job in self.jobs:
            if (job.case, job.planned, job.role) == (case, device, role):
                return job
        return None
