"""What a controller knows of its run: the job table in memory, kept up to date by reading what may have changed.

What changes by itself are jobs that were sent to the queue or run: those are read at each poll. Whatever else
somebody does to a run (cancel it, end what nobody serves) changes how many jobs have each status: that is looked at
now and then, and then everything is read again. So a poll costs what is on its way and not what there is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from farm.dispatch import Board
from farm.jobs import JobView
from farm.store import Store
from farm.store.jobs import counted_with, jobs_of, jobs_with


class JobTable:
    """The jobs of one run; ``boards`` has them by queue, arranged for dispatch."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._jobs: dict[str, JobView] = {}
        self._open: dict[str, dict[str, JobView]] = {}
        self.boards: dict[str, Board] = {}
        self.load()

    @property
    def jobs(self) -> tuple[JobView, ...]:
        """All jobs, without their documents, by device and position."""
        return tuple(self._jobs.values())

    @property
    def ended(self) -> bool:
        """True once every job has ended."""
        return not any(self._open.values())

    def one_open_job_a_queue(self) -> list[JobView]:
        """For each queue that still has something to do one of its jobs."""
        return [next(iter(jobs.values())) for jobs in self._open.values() if jobs]

    def sent(self) -> list[JobView]:
        """The jobs that are sent to a queue or running."""
        return [job for board in self.boards.values() for job in board.on_their_way()]

    def load(self) -> None:
        """Read everything."""
        self._jobs, self._open, self.boards = {}, defaultdict(dict), defaultdict(Board)
        for job in jobs_of(self._store, self._run_id, documents=False):
            self._note(job)

    def refresh(self) -> bool:
        """Read what is on its way; True when something changed."""
        return self.read(job.id for job in self.sent())

    def read(self, ids: Iterable[str]) -> bool:
        """Read these jobs again; True when something changed."""
        return self._take(jobs_with(self._store, ids))

    def _take(self, jobs: Iterable[JobView]) -> bool:
        """Take note of those that are not as we know them; True when there are some."""
        changed = [job for job in jobs if job != self._jobs[job.id]]
        if any((job.device, job.queue) != (self._jobs[job.id].device, self._jobs[job.id].queue) for job in changed):
            self.load()  # it moved to another unit, and others may have moved along
        else:
            for job in changed:
                self._note(job)
        return bool(changed)

    def verify(self, *, doubt: bool = False) -> bool:
        """Read what is on its way, and everything unless then as many jobs have each status as we know.

        In ``doubt`` everything anyway. True when something changed, or everything was read.
        """
        if not doubt:
            counts, away = counted_with(self._store, self._run_id, [job.id for job in self.sent()])
            changed = self._take(away)
            if counts == Counter(job.status for job in self._jobs.values()):
                return changed
        self.load()
        return True

    def _note(self, job: JobView) -> None:
        self._jobs[job.id] = job
        self.boards[job.queue].put(job)
        if job.status.ended:
            self._open[job.queue].pop(job.id, None)
        else:
            self._open[job.queue][job.id] = job
