"""Runs as people ask for them: list, look up, note, cancel."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from engine.contract.errors import RunCancelled, UsageError
from farm.jobs import JobStatus, RunView
from farm.store.database import Store
from farm.store.jobs import RUN_STALE_SECONDS
from farm.store.models import JobRow, RunRow
from farm.store.transitions import end_jobs

LIVING = ("running", "open")
_PATTERN = re.compile(r"[A-Za-z0-9-]{1,64}")


def list_runs(
    store: Store, *, limit: int | None = None, living: bool = False, sweep: str | None = None
) -> list[RunView]:
    """Runs, the newest first; ``living`` leaves out what has ended, ``sweep`` what is no part of that sweep."""
    query = select(RunRow).order_by(RunRow.created.desc(), RunRow.id.desc())
    if living:
        query = query.where(RunRow.status.in_(LIVING))
    if sweep is not None:
        query = query.where(RunRow.sweep == sweep)
    with store.read() as session:
        return _views(session, session.scalars(query.limit(limit)).all())


def is_driven(run: RunRow | RunView, now: float) -> bool:
    """Whether a command drives a run or a sweep at this moment, as far as its signs of life tell."""
    driven = run.status == "running" or (run.status == "open" and run.driver != "")
    return driven and run.seen > now - RUN_STALE_SECONDS


def find_run(store: Store, name: str) -> RunView:
    """The run whose id is ``name``, or begins or ends with it, or the newest one for ``latest``. ``UsageError``.

    The newest one is no confirmation that has ended: the run that it confirms has the report.
    """
    with store.read() as session:
        rows = session.scalars(_matching(name)).all()
        exact = [row for row in rows if row.id == name]
        if len(exact or rows) == 1:
            return _views(session, exact or rows)[0]
    if not rows:
        raise UsageError(f"no run {name!r} in the store", hint="`lockstep runs` lists them")
    raise UsageError(f"{name!r} fits several runs", hint="give more of the id; `lockstep runs` lists them")


def note_run(store: Store, run_id: str, **facts: Any) -> None:
    """Keep facts (JSON) with a run, for example where its report lies."""
    with store.write() as session:
        row = session.get_one(RunRow, run_id, with_for_update=True)
        row.payload = {**row.payload, **facts}


def cancel_run(store: Store, run_id: str, by: str, reason: str) -> int:
    """End a run and say who did and why; returns how many jobs that ended. ``UsageError`` when it has ended.

    Cancelling a sweep ends the run that is on its way for it, and nobody resumes it.
    """
    now = store.clock()
    with store.write() as session:
        row = session.get(RunRow, run_id, with_for_update=True)
        if row is None or row.status not in LIVING:
            status = "not there" if row is None else row.status
            raise UsageError(f"run {run_id} is {status}: nothing to cancel", hint="`lockstep runs` shows what runs")
        parts = session.scalars(select(RunRow).where(RunRow.sweep == run_id, RunRow.status == "running")).all()
        ended = 0
        for run in (row, *(part for part in parts if part is not row)):
            ended += end_jobs(session, run.id, f"cancelled by {by}: {reason}", now)
            run.status = "cancelled"
            run.finished = now
            run.payload = {**run.payload, "cancelled": {"by": by, "reason": reason, "at": now}}
        return ended


def check_cancelled(store: Store, run_id: str) -> None:
    """Raise ``RunCancelled`` when somebody ended this run."""
    with store.read() as session:
        row = session.get(RunRow, run_id)
        told = row.payload.get("cancelled") if row is not None else None
    if told:
        raise RunCancelled(
            f"run {run_id} was cancelled by {told['by']}: {told['reason']}",
            hint=f"`lockstep runs show {run_id}` shows what it had done; start it again when that is settled",
            run=run_id,
            by=told["by"],
            reason=told["reason"],
        )


def _matching(name: str) -> Any:
    query = select(RunRow).order_by(RunRow.created.desc(), RunRow.id.desc())
    if name == "latest":
        return query.where((RunRow.kind != "confirm") | RunRow.status.in_(LIVING)).limit(1)
    if not _PATTERN.fullmatch(name):
        raise UsageError(f"{name!r} is no id of a run", hint="`lockstep runs` lists them")
    return query.where(RunRow.id.startswith(name) | RunRow.id.endswith(name)).limit(2)


def _views(session: Session, rows: Sequence[RunRow]) -> list[RunView]:
    counts: dict[str, dict[JobStatus, int]] = defaultdict(dict)
    query = select(JobRow.run_id, JobRow.status, func.count()).group_by(JobRow.run_id, JobRow.status)
    for run_id, status, count in session.execute(query.where(JobRow.run_id.in_([row.id for row in rows]))):
        counts[run_id][JobStatus(status)] = count
    return [_view(row, counts[row.id]) for row in rows]


def _view(row: RunRow, counts: dict[JobStatus, int]) -> RunView:
    return RunView(
        id=row.id,
        kind=row.kind,
        suite=row.suite,
        engine=row.engine,
        command=row.command,
        owner=row.owner,
        priority=row.priority,
        status=row.status,
        driver=row.driver,
        created=row.created,
        seen=row.seen,
        finished=row.finished,
        sweep=row.sweep,
        payload=row.payload,
        counts=counts,
    )
