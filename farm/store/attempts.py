"""How an attempt ends, inside the transaction of a transition: what becomes of its lease, its device and its job."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm import leases
from farm.health import TIMED_OUT, Health, blames_device, clears_device
from farm.jobs import JobError, JobStatus
from farm.store.devices import note_failure, note_pass, record_of
from farm.store.models import AttemptRow, JobRow, RunRow
from farm.store.units import move

RETRY_DELAY_SECONDS = 0.2
MAX_ERRORS = 2
"""An infrastructure error is tried once more."""
MAX_LOST = 3
"""A job that took its worker with it three times ends as ``infra``."""
TAKEN = ("cancelled", "timeout")
"""Outcomes set while the worker still works; the attempt has no end until the worker says that it stopped."""


def may_try_again(session: Session, row: JobRow) -> bool:
    """True while a job may have one more attempt after an infrastructure error."""
    return count(session, row.id, "error", "timeout") < MAX_ERRORS


def count(session: Session, job_id: str, *outcomes: str) -> int:
    """How many attempts at a job ended like this."""
    query = select(func.count()).where(AttemptRow.job_id == job_id, AttemptRow.outcome.in_(outcomes))
    return session.execute(query).scalar_one()


def end_attempt(session: Session, row: JobRow, outcome: str, now: float, error: JobError | None = None) -> None:
    """Close the present attempt, and its lease: at once, or as soon as a worker that still works has stopped."""
    attempt = session.get_one(AttemptRow, (row.id, row.attempts))
    attempt.outcome = outcome
    attempt.error = error.to_json() if error else None
    if outcome in TAKEN:
        leases.revoke(session, row.device, attempt.token)
    else:
        attempt.ended = now
        leases.release(session, row.device, attempt.token)
    session.flush()


def judge_device(session: Session, run: RunRow, row: JobRow, error: JobError, now: float) -> None:
    """Let the device bear what its attempt showed: a failure of its own, or that it is sound and the engine is not."""
    if blames_device(error):
        note_failure(session, row.device, error, now, Health.of_run(run.payload))
    elif clears_device(error):
        note_pass(session, row.device, now, f"{row.case} failed, the device answered")


def try_again(session: Session, run: RunRow, row: JobRow, error: JobError, now: float) -> None:
    """Back to the table for one more attempt, elsewhere if possible; ends where the device waits for a person."""
    device = record_of(session, row.device, now)
    if blames_device(error) and move(session, run, row, now, error.message):
        requeue(row, now)
    elif device.hopeless(now):
        end_job(row, JobStatus.FAILED, now)
    else:
        requeue(row, now)
        row.not_before = max(row.not_before, device.not_before)


def end_job(row: JobRow, status: JobStatus, now: float) -> None:
    """The job has ended, for good."""
    row.status = status
    row.dispatched = None
    row.finished = now


def requeue(row: JobRow, now: float) -> None:
    """The job is back in the table."""
    row.status = JobStatus.QUEUED
    row.dispatched = None
    row.not_before = now + RETRY_DELAY_SECONDS


def lose(session: Session, row: JobRow, now: float, why: str) -> None:
    """The attempt is over without a word: once more, a bounded number of times."""
    error = JobError(
        type="AttemptLost",
        message=f"attempt {row.attempts} of {row.case} on {row.device}: {why}",
        hint="the worker's log has more; a job that kills its worker each time needs a smaller case or more memory",
    )
    end_attempt(session, row, "lost", now, error)
    row.error = error.to_json()
    if count(session, row.id, "lost") < MAX_LOST:
        requeue(row, now)
    else:
        end_job(row, JobStatus.FAILED, now)


def time_out(session: Session, row: JobRow, now: float) -> None:
    """The attempt had its time: its worker is told at its next heartbeat. The job is tried again as after any error."""
    error = JobError(
        type=TIMED_OUT,
        message=f"{row.case} on {row.device}: no result within {row.timeout:g} s",
        hint="`lockstep devices show NAME` and the worker's log tell more; a slow case needs a larger `limits.seconds`",
        fields={"device": row.device, "timeout_seconds": row.timeout},
    )
    end_attempt(session, row, "timeout", now, error)
    run = session.get_one(RunRow, row.run_id)
    judge_device(session, run, row, error, now)
    row.error = error.to_json()
    if may_try_again(session, row):
        try_again(session, run, row, error, now)
    else:
        end_job(row, JobStatus.FAILED, now)
