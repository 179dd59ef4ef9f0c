"""A sweep: everything on everything, as runs that together do each job once, whatever dies in between.

The sweep itself is a row among the runs, without jobs; its status is ``open`` until its report is written. Each time
it is driven, what is missing becomes one run of it. What counts is ``JobSpec.content``: a job whose content has an
answer in any run of the sweep is taken over and not run again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import defer

from engine.contract.errors import InfraError, UsageError
from farm.jobs import JobSpec, JobStatus, JobView, Priority, RunSpec, RunSummary, RunView
from farm.store import Store, attempts_of, create_run
from farm.store.jobs import view
from farm.store.models import JobRow, RunRow
from farm.store.runs import check_cancelled, find_run, list_runs
from farm.store.transitions import abandon_sweep

KIND = "sweep"
SAME_NIGHT_SECONDS = 12 * 3600.0
"""How old an unfinished sweep may be that is gone on with when the same one is started again."""


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """Hold the right to sweep on this host; ``InfraError`` while another process has it. Ends with the process."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "sweep.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise InfraError(
                f"a sweep is running already (process {lock.read(20).strip() or 'unknown'})",
                hint="`lockstep runs watch` follows it; `lockstep runs cancel ID --reason TEXT` ends it",
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def begin(store: Store, command: str, request: Mapping[str, Any]) -> RunView:
    """A new sweep; ``request`` (JSON with ``suites`` and ``engines``) is what it was asked."""
    spec = RunSpec(
        suite=",".join(request["suites"])[:255],
        engine=",".join(request["engines"])[:255],
        command=command,
        payload={"request": dict(request)},
        kind=KIND,
        priority=Priority.NIGHTLY,
    )
    run_id = create_run(store, spec, [])
    with store.write() as session:
        # Of nights long past nobody goes on by himself; by its id one still can
        forgotten = update(RunRow).where(RunRow.status == "open", RunRow.created < store.clock() - SAME_NIGHT_SECONDS)
        session.execute(forgotten.values(status="abandoned"))
        row = session.get_one(RunRow, run_id)
        row.sweep = run_id
        row.status = "open"
    return find_run(store, run_id)


def unfinished(store: Store, request: Mapping[str, Any] | None = None) -> RunView | None:
    """The newest open sweep; with a ``request``, the one of the same night that was asked the same."""
    since = store.clock() - SAME_NIGHT_SECONDS
    for run in list_runs(store, living=True):
        if run.id != run.sweep or run.status != "open":
            continue
        if request is None or (run.payload.get("request") == dict(request) and run.created >= since):
            return run
    return None


def resume(store: Store, name: str | None) -> RunView:
    """The sweep ``name`` (id or a part of it), or the newest open one, with its dead runs abandoned. ``UsageError``.

    For the holder of ``alone`` only: whoever drove it before is known to be dead.
    """
    found = find_run(store, name) if name else unfinished(store)
    if found is None:
        raise UsageError("no sweep is unfinished", hint="`lockstep sweep` starts one; `lockstep runs` lists them")
    if found.sweep is None:
        raise UsageError(f"{found.id} is no sweep, but a {found.kind}", hint="`lockstep runs` tells them apart")
    sweep = find_run(store, found.sweep)
    check_cancelled(store, sweep.id)
    abandon_sweep(store, sweep.id)
    with store.write() as session:
        row = session.get_one(RunRow, sweep.id)
        row.status = "open"
        row.seen = store.clock()
    return find_run(store, sweep.id)


def end(store: Store, sweep: str, **facts: Any) -> None:
    """The report is written: the sweep is done. ``facts`` (JSON) are kept with it."""
    with store.write() as session:
        row = session.get_one(RunRow, sweep, with_for_update=True)
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

    def drive(self, jobs: Sequence[JobSpec]) -> None:
        """Return when every job has ended. ``RunCancelled`` when somebody ended the sweep."""
        check_cancelled(self._store, self._sweep.id)
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
            self.seconds += self._run(create_run(self._store, spec, missing)).seconds
        check_cancelled(self._store, self._sweep.id)

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
