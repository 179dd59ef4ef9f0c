"""A sweep: everything on everything, as runs that together do each job once, whatever dies in between.

The sweep itself is a row among the runs, without jobs; its status is ``open`` until its report is written. Each time
it is driven, what is missing becomes one run of it. What counts is ``JobSpec.content``: a job whose content has an
answer in any run of the sweep is taken over and not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, defer

from engine.contract.errors import UsageError
from farm.driving import check_driving, ours, take
from farm.jobs import JobSpec, JobStatus, JobView, Priority, RunSpec, RunSummary, RunView
from farm.store import Store, attempts_of
from farm.store.database import take_turns
from farm.store.jobs import add_run, view
from farm.store.models import JobRow, RunRow
from farm.store.runs import check_cancelled, find_run, is_driven, list_runs
from farm.store.transitions import abandon_sweep

KIND = "sweep"
SAME_NIGHT_SECONDS = 12 * 3600.0
"""How old an unfinished sweep may be that is gone on with when the same one is started again."""


def begin(
    store: Store,
    driver: str,
    command: str,
    request: Mapping[str, Any],
    *,
    fresh: bool = False,
    entry: str | None = None,
) -> RunView:
    """Drive what was asked: the unfinished sweep of this night, or a new one (with ``fresh`` always).

    ``driver`` is the place of ``alone``; ``request`` is JSON with ``suites`` and ``engines``; ``entry`` names what of
    ``sweeps.yaml`` asked. ``InfraError`` while another place drives the same sweep.
    """
    with store.write() as session:
        take_turns(session)  # two hosts whose clocks strike at once begin one sweep
        now = store.clock()
        row = None if fresh else _same_night(session, request, now)
        if row is not None:
            take(row, driver, now)
            row.payload = {**row.payload, "entry": entry or row.payload.get("entry")}
        else:
            row = _new(session, driver, command, {"request": dict(request), "entry": entry}, now)
        sweep = row.id
    abandon_sweep(store, sweep)
    return find_run(store, sweep)


def _open(session: Session) -> list[RunRow]:
    """The sweeps whose report is not written, the newest first, locked."""
    rows = select(RunRow).where(RunRow.status == "open").order_by(RunRow.created.desc(), RunRow.id.desc())
    return list(session.scalars(rows.with_for_update()))


def _same_night(session: Session, request: Mapping[str, Any], now: float) -> RunRow | None:
    """The unfinished sweep that was asked the same, of this night or a longer one."""
    fit = (row for row in _open(session) if row.payload.get("request") == dict(request))
    return next((row for row in fit if row.created >= now - SAME_NIGHT_SECONDS or is_driven(row, now)), None)


def _new(session: Session, driver: str, command: str, payload: Mapping[str, Any], now: float) -> RunRow:
    for old in _open(session):  # of nights long past nobody goes on by himself; by its id one still can
        if old.created < now - SAME_NIGHT_SECONDS and not is_driven(old, now):
            old.status, old.driver = "abandoned", ""
    spec = RunSpec(
        suite=",".join(payload["request"]["suites"])[:255],
        engine=",".join(payload["request"]["engines"])[:255],
        command=command,
        payload=payload,
        kind=KIND,
        priority=Priority.NIGHTLY,
    )
    row = add_run(session, spec, [], now)
    row.sweep = row.id
    row.status = "open"
    row.driver = driver
    return row


def interrupted(store: Store, entries: Collection[str]) -> RunView | None:
    """The newest unfinished sweep of this night that one of ``entries`` began."""
    since = store.clock() - SAME_NIGHT_SECONDS
    night = (run for run in list_runs(store, living=True) if run.status == "open" and run.created >= since)
    return next((run for run in night if run.payload.get("entry") in entries), None)


def resume(store: Store, driver: str, name: str | None) -> RunView:
    """Drive the sweep ``name`` (id or a part of it), or the newest unfinished one, and abandon its dead runs.

    ``driver`` is the place of ``alone``. ``UsageError``; ``InfraError`` while another place drives the sweep.
    """
    with store.write() as session:
        take_turns(session)
        row = _named(store, session, name) if name else _unfinished(session, driver, store.clock())
        take(row, driver, store.clock())
        sweep = row.id
    abandon_sweep(store, sweep)
    return find_run(store, sweep)


def _named(store: Store, session: Session, name: str) -> RunRow:
    found = find_run(store, name)
    if found.sweep is None:
        raise UsageError(f"{found.id} is no sweep, but a {found.kind}", hint="`lockstep runs` tells them apart")
    check_cancelled(store, found.sweep)
    return session.get_one(RunRow, found.sweep, with_for_update=True)


def _unfinished(session: Session, driver: str, now: float) -> RunRow:
    """The newest open sweep, if there is a choice one that no other place drives."""
    rows = _open(session)
    if not rows:
        raise UsageError("no sweep is unfinished", hint="`lockstep sweep` starts one; `lockstep runs` lists them")
    return next((row for row in rows if row.driver == driver or not is_driven(row, now)), rows[0])


def end(store: Store, sweep: RunView, **facts: Any) -> None:
    """The report is written: the sweep is done. ``facts`` (JSON) are kept with it.

    ``InfraError``, and nothing is written, when somebody else drives it by now.
    """
    with store.write() as session:
        row = ours(session, sweep)
        row.payload = {**row.payload, **facts}
        row.finished = row.seen = store.clock()
        if row.status == "open":
            row.status = "done"


class SweepRuns:
    """Drives jobs of one sweep: each call runs what has no answer yet as one more run of it.

    ``run`` drives a planned run to its end, as ``FarmSession.run`` does; ``payload`` is that of each run.
    """

    def __init__(
        self, store: Store, sweep: RunView, run: Callable[[str], RunSummary], payload: Mapping[str, Any] | None = None
    ) -> None:
        self._store = store
        self._sweep = sweep
        self._run = run
        self._payload = payload or {}
        self.seconds = 0.0
        self.taken_over = 0

    def check(self) -> None:
        """``RunCancelled`` when somebody ended the sweep, ``InfraError`` when somebody else drives it by now."""
        check_driving(self._store, self._sweep)

    def drive(self, jobs: Sequence[JobSpec]) -> None:
        """Return when every job has ended. As ``check``."""
        self.check()
        missing = self.missing(jobs)
        self.taken_over += len({job.content for job in jobs}) - len(missing)
        if missing:
            spec = RunSpec(
                suite=self._sweep.suite,
                engine=self._sweep.engine,
                command=self._sweep.command,
                payload=self._payload,
                kind=KIND,
                priority=self._sweep.priority,
                owner=self._sweep.owner,
                sweep=self._sweep.id,
            )
            with self._store.write() as session:
                ours(session, self._sweep)
                run_id = add_run(session, spec, missing, self._store.clock()).id
            self.seconds += self._run(run_id).seconds
        self.check()

    def missing(self, jobs: Sequence[JobSpec]) -> list[JobSpec]:
        """The jobs without an answer, one for each content."""
        known = {content for content, job in self._best(jobs, documents=False).items() if _answers(job)}
        return list({job.content: job for job in reversed(jobs) if job.content not in known}.values())[::-1]

    def summary(self, jobs: Sequence[JobSpec]) -> RunSummary:
        """What became of the jobs, whichever run of the sweep did them, under the case names of ``jobs``."""
        best = self._best(jobs, documents=True)
        found = [
            replace(best[job.content], case=job.case, tries=attempts_of(self._store, best[job.content].id))
            for job in jobs
            if job.content in best
        ]
        return RunSummary(run_id=self._sweep.id, seconds=self.seconds, jobs=tuple(found))

    def _best(self, jobs: Sequence[JobSpec], *, documents: bool) -> dict[str, JobView]:
        """The job that tells most, by content; of equals the newest."""
        wanted = {job.content for job in jobs}
        runs = select(RunRow.id).where(RunRow.sweep == self._sweep.id)
        rows = select(JobRow).where(JobRow.run_id.in_(runs)).order_by(JobRow.created, JobRow.id)
        if not documents:
            rows = rows.options(defer(JobRow.spec), defer(JobRow.result))
        best: dict[str, JobView] = {}
        with self._store.read() as session:
            for row in session.scalars(rows):
                if row.content in wanted:
                    job = view(row, documents=documents)
                    if row.content not in best or _rank(job) >= _rank(best[row.content]):
                        best[row.content] = job
        return best


def _answers(job: JobView) -> bool:
    """Whether the engine was seen on the device: an infrastructure fault says nothing of it."""
    if job.status == JobStatus.FAILED:
        return job.error is not None and job.error.status != "infra"
    return job.status == JobStatus.DONE


def _rank(job: JobView) -> int:
    return 2 * _answers(job) + (job.status == JobStatus.FAILED)
