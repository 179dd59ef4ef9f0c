"""The statements that every job costs: reserve, start, finish. What they mean is said in ``transitions.py``.

Elsewhere the store reads and writes rows as objects. Here, a thousand devices times, it names the few columns that it
needs in statements that are built once: building and mapping cost more than the database does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update
from sqlalchemy.orm import Session

from farm.jobs import JobStatus
from farm.store.models import Base

_JOBS, _RUNS, _ATTEMPTS = (Base.metadata.tables[name] for name in ("jobs", "runs", "attempts"))
_OF_RUN = _RUNS.c.id == _JOBS.c.run_id
_THIS = _JOBS.c.id == bindparam("job")

_QUEUED = (
    select(_JOBS.c.id, _JOBS.c.device, _RUNS.c.priority)
    .join_from(_JOBS, _RUNS, _OF_RUN)
    .where(_JOBS.c.id.in_(bindparam("ids", expanding=True)), _JOBS.c.status == JobStatus.QUEUED)
    .order_by(_JOBS.c.device, _JOBS.c.id)
    .with_for_update(of=_JOBS)
)
_ON_ITS_WAY = (
    select(_JOBS.c.id)
    .join_from(_JOBS, _RUNS, _OF_RUN)
    .where(
        _JOBS.c.device == bindparam("device"),
        _JOBS.c.status == JobStatus.QUEUED,
        _JOBS.c.dispatched.is_not(None),
        _JOBS.c.id != bindparam("but"),
        _RUNS.c.seen > bindparam("alive"),
    )
    .limit(1)
)
_DISPATCH = update(_JOBS).where(_THIS).values(dispatched=bindparam("now"))
_JOB = (
    select(_JOBS, _RUNS.c.status.label("run_status"), _RUNS.c.seen.label("run_seen"), _RUNS.c.priority)
    .join_from(_JOBS, _RUNS, _OF_RUN)
    .where(_THIS)
    .with_for_update(of=_JOBS)
)
_WITHDRAW = update(_JOBS).where(_THIS).values(dispatched=None)
_DELAY = _WITHDRAW.values(not_before=bindparam("later"))
_START = (
    update(_JOBS).where(_THIS).values(status=JobStatus.RUNNING, attempts=bindparam("nth"), started=bindparam("now"))
)
_OPEN_ATTEMPT = insert(_ATTEMPTS).values(outcome="running", ended=None, error=None)
_DONE = (
    update(_JOBS)
    .where(_THIS, _JOBS.c.status == JobStatus.RUNNING, _JOBS.c.attempts == bindparam("nth"))
    .values(status=JobStatus.DONE, result=bindparam("answer"), error=None, dispatched=None, finished=bindparam("now"))
    .returning(_JOBS.c.id)
)
_CLOSE_ATTEMPT = (
    update(_ATTEMPTS)
    .where(_ATTEMPTS.c.job_id == bindparam("job"), _ATTEMPTS.c.number == bindparam("nth"))
    .values(outcome="done", error=None, ended=bindparam("now"))
)


def queued(session: Session, ids: Sequence[str]) -> list[tuple[str, str, int]]:
    """Those of the jobs that are queued (id, device, priority of the run), locked in the one order."""
    return [(job, device, priority) for job, device, priority in session.execute(_QUEUED, {"ids": list(ids)})]


def on_its_way(session: Session, device: str, but: str, alive: float) -> bool:
    """True while another job than ``but`` is sent to the device, in a run whose controller was seen since ``alive``."""
    return session.execute(_ON_ITS_WAY, {"device": device, "but": but, "alive": alive}).first() is not None


def dispatch(session: Session, job: str, now: float) -> None:
    """The job is sent to the queue."""
    session.execute(_DISPATCH, {"job": job, "now": now})


def job_row(session: Session, job: str) -> Row[Any] | None:
    """A job, locked, with its run's ``run_status``, last sign of life (``run_seen``) and ``priority``."""
    return session.execute(_JOB, {"job": job}).first()


def withdraw(session: Session, job: str, later: float | None = None) -> None:
    """The job is back in the table, to go again not before ``later``."""
    if later is None:
        session.execute(_WITHDRAW, {"job": job})
    else:
        session.execute(_DELAY, {"job": job, "later": later})


def start(session: Session, job: Row[Any], token: int, worker: str, now: float) -> int:
    """The job runs: the number of its new attempt."""
    number = int(job.attempts) + 1
    session.execute(_START, {"job": job.id, "nth": number, "now": now})
    attempt = {"job_id": job.id, "number": number, "token": token, "worker": worker, "started": now}
    session.execute(_OPEN_ATTEMPT, {**attempt, "device": job.device})
    return number


def end_done(session: Session, job: str, attempt: int, result: dict[str, Any], now: float) -> bool:
    """Job and attempt are done with this result; False, and nothing is written, unless that attempt runs."""
    ended = session.execute(_DONE, {"job": job, "nth": attempt, "answer": result, "now": now}).first()
    if ended is not None:
        session.execute(_CLOSE_ATTEMPT, {"job": job, "nth": attempt, "now": now})
    return ended is not None
