"""Plan and read: runs and their jobs as the store has them."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row, bindparam, func, select, update
from sqlalchemy.orm import Session

from engine.contract.errors import StoreError
from farm.jobs import AttemptView, JobError, JobSpec, JobStatus, JobView, Role, RunSpec
from farm.secrets import redact
from farm.store.database import Store
from farm.store.models import AttemptRow, JobRow, RunRow

RUN_STALE_SECONDS = 30.0
"""A run whose controller was not seen for this long has lost it."""
MAX_IDS = 500
"""How many ids one question names at most: databases limit the parameters of a statement."""
_PLAIN = [column for column in JobRow.__table__.columns if column.key not in {"spec", "result"}]
# What a poll asks, many times a second: built once
_WITH_IDS = select(*_PLAIN).where(JobRow.__table__.c.id.in_(bindparam("ids", expanding=True)))
_BY_STATUS = (
    select(JobRow.__table__.c.status, func.count())
    .where(JobRow.__table__.c.run_id == bindparam("run"))
    .group_by(JobRow.__table__.c.status)
)


def create_run(store: Store, run: RunSpec, jobs: Sequence[JobSpec]) -> str:
    """Write the whole plan before anything is queued; returns the run's id, which sorts by time."""
    with store.write() as session:
        return add_run(session, run, jobs, store.clock()).id


def add_run(session: Session, run: RunSpec, jobs: Sequence[JobSpec], now: float) -> RunRow:
    """The same inside a transaction of the caller; returns the run's row."""
    row = RunRow(
        id=time.strftime("%Y%m%d-%H%M%S", time.gmtime(now)) + "-" + secrets.token_hex(3),
        suite=run.suite,
        engine=run.engine,
        command=redact(run.command),
        status="running",
        driver="",
        created=now,
        seen=now,
        finished=None,
        payload=dict(run.payload),
        priority=run.priority,
        owner=run.owner or whoami(),
        kind=run.kind,
        sweep=run.sweep,
    )
    session.add(row)
    session.flush()
    session.add_all([_new_job(row.id, job, now) for job in jobs])
    return row


def whoami() -> str:
    """``user@host``: who asks for a run."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as containers have
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"[:255]


def _new_job(run_id: str, job: JobSpec, now: float) -> JobRow:
    return JobRow(
        id=secrets.token_hex(8),
        run_id=run_id,
        device=job.device,
        case=job.case,
        role=job.role,
        position=job.position,
        cost=job.cost,
        timeout=job.timeout,
        status=JobStatus.QUEUED,
        attempts=0,
        not_before=now,
        dispatched=None,
        created=now,
        started=None,
        finished=None,
        spec=dict(job.spec),
        result=None,
        error=None,
        queue=job.queue,
        content=job.content,
    )


def jobs_of(store: Store, run_id: str, *, documents: bool = True) -> tuple[JobView, ...]:
    """All jobs of a run by device and position; ``documents=False`` leaves specs, results, attempts behind."""
    order = (JobRow.device, JobRow.position, JobRow.id)
    with store.read() as session:
        if not documents:
            plain = select(*_PLAIN).where(JobRow.run_id == run_id).order_by(*order)
            return tuple(view(row, documents=False) for row in session.execute(plain))
        rows = session.scalars(select(JobRow).where(JobRow.run_id == run_id).order_by(*order)).all()
        tries = _tries(session, run_id)
        return tuple(view(row, tries=tries.get(row.id, ())) for row in rows)


def _tries(session: Session, run_id: str) -> dict[str, tuple[AttemptView, ...]]:
    """Every attempt at every job of a run, in order, by job."""
    query = select(AttemptRow).join(JobRow, JobRow.id == AttemptRow.job_id).where(JobRow.run_id == run_id)
    found: dict[str, list[AttemptView]] = defaultdict(list)
    for row in session.scalars(query.order_by(AttemptRow.job_id, AttemptRow.number)):
        found[row.job_id].append(_attempt(row))
    return {job: tuple(tries) for job, tries in found.items()}


def jobs_with(store: Store, ids: Iterable[str]) -> tuple[JobView, ...]:
    """The jobs with these ids, without their documents; what a poll looks at."""
    wanted = list(ids)
    if not wanted:
        return ()
    with store.read() as session:
        return _with_ids(session, wanted)


def _with_ids(session: Session, wanted: list[str]) -> tuple[JobView, ...]:
    parts = (wanted[start : start + MAX_IDS] for start in range(0, len(wanted), MAX_IDS))
    rows = (row for part in parts for row in session.execute(_WITH_IDS, {"ids": part}))
    return tuple(view(row, documents=False) for row in rows)


def fingerprint(store: Store, run_id: str) -> tuple[object, ...]:
    """Something cheap to read that differs after every change of a run's jobs: what a poll looks at."""
    query = (
        select(
            JobRow.status,
            func.count(),
            func.sum(JobRow.attempts),
            func.count(JobRow.dispatched),
            func.sum(JobRow.dispatched),
            func.sum(JobRow.not_before),
        )
        .where(JobRow.run_id == run_id)
        .group_by(JobRow.status)
        .order_by(JobRow.status)
    )
    with store.read() as session:
        return tuple(tuple(row) for row in session.execute(query))


def counted_with(store: Store, run_id: str, ids: Iterable[str]) -> tuple[Counter[JobStatus], tuple[JobView, ...]]:
    """How many jobs of a run have each status (from an index alone), and these jobs, as they are at one moment."""
    with store.read() as session:
        counts = Counter({JobStatus(status): count for status, count in session.execute(_BY_STATUS, {"run": run_id})})
        return counts, _with_ids(session, list(ids))


def job(store: Store, job_id: str) -> JobView:
    """One job; ``StoreError`` when there is none."""
    with store.read() as session:
        row = session.get(JobRow, job_id)
        if row is None:
            raise StoreError(f"job {job_id} is not in the store", hint="was the state folder deleted?")
        return view(row, tries=_attempts(session, job_id))


def attempts_of(store: Store, job_id: str) -> tuple[AttemptView, ...]:
    """Every attempt at a job, in order."""
    with store.read() as session:
        return _attempts(session, job_id)


def _attempts(session: Session, job_id: str) -> tuple[AttemptView, ...]:
    query = select(AttemptRow).where(AttemptRow.job_id == job_id).order_by(AttemptRow.number)
    return tuple(_attempt(row) for row in session.scalars(query))


def _attempt(row: AttemptRow) -> AttemptView:
    return AttemptView(
        job_id=row.job_id,
        number=row.number,
        token=row.token,
        worker=row.worker,
        started=row.started,
        ended=row.ended,
        outcome=row.outcome,
        error=_error(row.error),
        device=row.device,
    )


def run_status(store: Store, run_id: str) -> str:
    """running, done, cancelled or abandoned; ``StoreError`` for an unknown run."""
    with store.read() as session:
        return _run(session, run_id).status


def _run(session: Session, run_id: str) -> RunRow:
    row = session.get(RunRow, run_id)
    if row is None:
        raise StoreError(f"run {run_id} is not in the store", hint="was the state folder deleted?")
    return row


def run_priority(store: Store, run_id: str) -> int:
    """Whose turn it is: smaller goes first; ``StoreError`` for an unknown run."""
    with store.read() as session:
        return _run(session, run_id).priority


def touch_run(store: Store, run_id: str, driver: str) -> None:
    """The controller's heartbeat: this run is being driven, by the session ``driver``."""
    with store.write() as session:
        session.execute(update(RunRow).where(RunRow.id == run_id).values(seen=store.clock(), driver=driver))


def heartbeats(store: Store) -> dict[str, float]:
    """When the controller of each run that is driven was last seen, by its own clock."""
    with store.read() as session:
        query = select(RunRow.id, RunRow.seen).where(RunRow.status == "running")
        return {row.id: row.seen for row in session.execute(query)}


def finish_run(store: Store, run_id: str, status: str) -> None:
    """Close a run that is still open as done, cancelled or abandoned."""
    now = store.clock()
    with store.write() as session:
        still_open = update(RunRow).where(RunRow.id == run_id, RunRow.status == "running")
        session.execute(still_open.values(status=status, seen=now, finished=now))


def view(row: JobRow | Row[Any], *, documents: bool = True, tries: tuple[AttemptView, ...] = ()) -> JobView:
    """The frozen picture of a row."""
    return JobView(
        id=row.id,
        run_id=row.run_id,
        case=row.case,
        device=row.device,
        role=Role(row.role),
        position=row.position,
        cost=row.cost,
        timeout=row.timeout,
        status=JobStatus(row.status),
        attempts=row.attempts,
        not_before=row.not_before,
        dispatched=row.dispatched,
        created=row.created,
        started=row.started,
        finished=row.finished,
        spec=row.spec if documents else {},
        result=row.result if documents else None,
        error=_error(row.error),
        queue=row.queue,
        content=row.content,
        tries=tries,
    )


def _error(document: dict[str, Any] | None) -> JobError | None:
    return None if document is None else JobError(**document)
