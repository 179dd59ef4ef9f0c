"""How a job moves: queued → running → done, failed or cancelled, and back to queued when an attempt is lost.

Each function is one transaction. A job ends once: every transition out of ``running`` first proves that the
attempt it speaks of is the job's present one. How an attempt ends also tells of its device (``farm/health.py``); a
job whose device failed goes on on another unit where there is one (``farm/store/units.py``). Locks are taken in one
order, jobs (by device and id) before devices, so that no two writers wait in a circle.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, select
from sqlalchemy.orm import Session

from engine.contract.errors import LeaseLost
from farm import leases
from farm.health import refusal
from farm.jobs import JobError, JobStatus, JobView
from farm.leases import Lease
from farm.store import quick
from farm.store.attempts import TAKEN, end_attempt, end_job, judge_device, lose, may_try_again, time_out, try_again
from farm.store.database import Store
from farm.store.devices import hopeless, note_pass, record_of
from farm.store.jobs import RUN_STALE_SECONDS, view
from farm.store.models import AttemptRow, JobRow, RunRow
from farm.store.turns import awaited
from farm.store.units import move

BUSY_DELAY_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A job that is ours to run: under which lease, as which attempt."""

    job: JobView
    lease: Lease
    attempt: int


def reserve(store: Store, ids: Sequence[str]) -> set[str]:
    """Mark queued jobs as sent to the queue; returns which.

    Not those whose device has another job outstanding in a living run, or is awaited by a job of a better priority.
    """
    now = store.clock()
    with store.write() as session:
        reserved = set()
        for job, device, priority in quick.queued(session, ids):
            if _is_free(session, job, device, priority, now):
                quick.dispatch(session, job, now)
                reserved.add(job)
        return reserved


def _is_free(session: Session, job: str, device: str, priority: int, now: float) -> bool:
    """Whether a job may be sent to its device; one controller at a time asks that of a device."""
    return not (
        leases.lock(session, device) > now
        or quick.on_its_way(session, device, job, now - RUN_STALE_SECONDS)
        or not record_of(session, device, now).leasable(now)
        or awaited(session, now, priority, device)
    )


def unreserve(store: Store, job_id: str) -> None:
    """The message could not be sent after all."""
    with store.write() as session:
        row = _job(session, job_id)
        if row is not None and row.status == JobStatus.QUEUED:
            row.dispatched = None


def claim(store: Store, job_id: str, worker: str, ttl: float) -> Claim | None:
    """Start an attempt, or None: the job is not queued any more, its run is dead, or its device is busy.

    A device that is busy or out of use, or that a better job has come to wait for, sends the job back to the table
    with a later ``not_before``; no worker waits for it.
    """
    now = store.clock()
    with store.write() as session:
        row = quick.job_row(session, job_id)
        if row is None or row.status != JobStatus.QUEUED:
            return None
        if row.run_status != "running" or row.run_seen <= now - RUN_STALE_SECONDS:
            quick.withdraw(session, row.id)
            return None
        lease = _acquire(session, row.priority, row, worker, ttl, now)
        if lease is None:
            return None
        number = quick.start(session, row, lease.token, worker, now)
        job = replace(view(row), status=JobStatus.RUNNING, attempts=number, started=now)
        return Claim(job=job, lease=lease, attempt=number)


def _acquire(session: Session, priority: int, row: Row[Any], worker: str, ttl: float, now: float) -> Lease | None:
    """The lease on the job's device; None, and the job is back in the table, when it cannot have it now."""
    lease = None
    if not awaited(session, now, priority, row.device):
        lease = leases.acquire(session, row.device, worker, ttl, now)
    device = record_of(session, row.device, now, lock=True)
    if lease is not None and device.leasable(now):
        return lease
    if lease is not None:
        leases.release(session, row.device, lease.token)
    quick.withdraw(session, row.id, max(now + BUSY_DELAY_SECONDS, device.not_before))
    return None


def heartbeat(store: Store, claim: Claim, ttl: float) -> Lease:
    """Keep the device for ``ttl`` more seconds; ``LeaseLost`` when it is not ours any more."""
    with store.write() as session:
        return leases.renew(session, claim.lease, ttl, store.clock())


def finish(store: Store, claim: Claim, result: dict[str, Any]) -> None:
    """Store the result and free the device; ``LeaseLost`` when the lease is over, and then nothing is written."""
    now = store.clock()
    with store.write() as session:
        if not quick.end_done(session, claim.job.id, claim.attempt, result, now):
            _mine(session, claim, now)  # says why not
        leases.give_back(session, claim.lease, now)  # or LeaseLost, and with it nothing of this is written
        note_pass(session, claim.job.device, now, f"{claim.job.case} went through")


def fail(store: Store, claim: Claim, error: JobError, *, retry: bool) -> None:
    """Store the error and free the device; with ``retry`` the job is tried once more, on another unit if there is one.

    ``LeaseLost`` as above.
    """
    now = store.clock()
    with store.write() as session:
        row = _mine(session, claim, now)
        row.error = error.to_json()
        end_attempt(session, row, "error", now, error)
        run = session.get_one(RunRow, row.run_id)
        judge_device(session, run, row, error, now)
        if retry and may_try_again(session, row):
            try_again(session, run, row, error, now)
        else:
            end_job(row, JobStatus.FAILED, now)


def acknowledge(store: Store, claim: Claim) -> None:
    """The worker has stopped working on an attempt that was taken from it: its device is free now."""
    with store.write() as session:
        attempt = session.get_one(AttemptRow, (claim.job.id, claim.attempt))
        if attempt.ended is None:
            attempt.ended = store.clock()
        leases.release(session, claim.lease.device, claim.lease.token)


def reclaim(store: Store, run_id: str) -> bool:
    """Take back a run's running jobs whose lease is over, end those past their time and those nobody can run.

    True when jobs that were not on their way have moved or ended.
    """
    now = store.clock()
    with store.write() as session:
        settled = _settle(session, run_id, now)
        for row in session.scalars(_locked(JobRow.run_id == run_id, JobRow.status == JobStatus.RUNNING)):
            attempt = session.get_one(AttemptRow, (row.id, row.attempts))
            if not leases.is_valid(session, row.device, attempt.token, now):
                lose(session, row, now, "its lease ended without a word")
            elif row.started is not None and row.started + row.timeout <= now:
                time_out(session, row, now)
        return settled


def _settle(session: Session, run_id: str, now: float) -> bool:
    """No job waits for a device that a person must see to, or that is quarantined: it moves to another unit or ends.

    True when there were such jobs.
    """
    out_of_use = hopeless(session, now)
    if not out_of_use:
        return False
    waiting = _locked(
        JobRow.run_id == run_id,
        JobRow.status == JobStatus.QUEUED,
        JobRow.dispatched.is_(None),
        JobRow.device.in_(list(out_of_use)),
    )
    rows = session.scalars(waiting).all()
    run = session.get_one(RunRow, run_id)
    for row in sorted(rows, key=lambda job: job.position):
        device = out_of_use.get(row.device)
        if device is None:  # it moved along with the job before
            continue
        why = refusal(device, time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(device.since)))
        if not move(session, run, row, now, why.message):
            row.error = JobError.of(why).to_json()
            end_job(row, JobStatus.FAILED, now)
    return bool(rows)


def lose_worker(store: Store, worker: str) -> None:
    """Take back what a worker had that is known to be dead."""
    now = store.clock()
    with store.write() as session:
        running = (
            select(JobRow)
            .join(AttemptRow, (AttemptRow.job_id == JobRow.id) & (AttemptRow.number == JobRow.attempts))
            .where(AttemptRow.worker == worker, AttemptRow.outcome == "running", JobRow.status == JobStatus.RUNNING)
            .order_by(JobRow.device, JobRow.id)
            .with_for_update(of=JobRow)
        )
        for row in session.scalars(running):
            lose(session, row, now, "its worker died")
        stopping = (
            select(AttemptRow)
            .join(JobRow, JobRow.id == AttemptRow.job_id)
            .where(AttemptRow.worker == worker, AttemptRow.outcome.in_(TAKEN), AttemptRow.ended.is_(None))
        )
        for attempt in session.scalars(stopping):
            attempt.ended = now
            leases.release(session, attempt.device, attempt.token)  # its job may have moved on to another unit


def cancel_jobs(store: Store, run_id: str, reason: str) -> None:
    """End all jobs of a run that have not ended; their devices are free once what runs there has stopped."""
    with store.write() as session:
        end_jobs(session, run_id, reason, store.clock())


def end_jobs(session: Session, run_id: str, reason: str, now: float) -> int:
    """The same inside a transaction of the caller; returns how many jobs that were."""
    error = JobError(type="cancelled", message=reason, hint="start the run again")
    open_still = [JobStatus.QUEUED, JobStatus.RUNNING]
    rows = session.scalars(_locked(JobRow.run_id == run_id, JobRow.status.in_(open_still))).all()
    for row in rows:
        if row.status == JobStatus.RUNNING:
            end_attempt(session, row, "cancelled", now, error)
        row.error = error.to_json()
        end_job(row, JobStatus.CANCELLED, now)
    return len(rows)


def end_unserved(store: Store, run_id: str, queue: str, error: JobError) -> None:
    """End the jobs of a run that still wait at a queue which nobody serves."""
    now = store.clock()
    with store.write() as session:
        waiting = _locked(JobRow.run_id == run_id, JobRow.queue == queue, JobRow.status == JobStatus.QUEUED)
        for row in session.scalars(waiting):
            row.error = error.to_json()
            end_job(row, JobStatus.FAILED, now)


def recover(store: Store) -> list[str]:
    """Abandon the runs whose controller was not seen for long: it died without a word. Returns those runs."""
    return _abandon(store, RunRow.seen <= store.clock() - RUN_STALE_SECONDS)


def abandon_silent(store: Store, run_id: str, seen: float) -> list[str]:
    """Abandon a run unless its controller gave a sign of life after ``seen``. Returns it if so."""
    return _abandon(store, (RunRow.id == run_id) & (RunRow.seen == seen))


def abandon_driver(store: Store, driver: str) -> list[str]:
    """Abandon what a session drove that is known to be dead. Returns those runs."""
    return _abandon(store, RunRow.driver == driver)


def abandon_sweep(store: Store, sweep: str) -> list[str]:
    """Abandon the runs of a sweep whose driver is known to be dead. Returns those runs."""
    return _abandon(store, RunRow.sweep == sweep)


def _abandon(store: Store, which: ColumnElement[bool]) -> list[str]:
    """Each run in a transaction of its own, which asks once more: its controller may be back meanwhile."""
    driven = (RunRow.status == "running") & which
    with store.read() as session:
        found = list(session.scalars(select(RunRow.id).where(driven)))
    lost = []
    for run_id in found:
        now = store.clock()
        with store.write() as session:
            run = session.scalars(select(RunRow).where(RunRow.id == run_id, driven).with_for_update()).first()
            if run is not None:
                end_jobs(session, run_id, "the command that drove this run died without a word", now)
                run.status = "abandoned"
                run.seen = run.finished = now
                lost.append(run_id)
    return lost


def _job(session: Session, job_id: str) -> JobRow | None:
    return session.get(JobRow, job_id, with_for_update=True)


def _locked(*which: ColumnElement[bool]) -> Select[JobRow]:
    """Jobs, each locked until the transaction ends, in the one order in which everybody locks them."""
    return select(JobRow).where(*which).order_by(JobRow.device, JobRow.id).with_for_update()


def _mine(session: Session, claim: Claim, now: float) -> JobRow:
    row = _job(session, claim.job.id)  # the job before the lease, here as everywhere: no two writers wait in a circle
    leases.check(session, claim.lease, now)
    if row is None or row.status != JobStatus.RUNNING or row.attempts != claim.attempt:
        raise LeaseLost(f"job {claim.job.id}: attempt {claim.attempt} is over", hint="nothing to do")
    return row
