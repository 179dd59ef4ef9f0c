"""Device hosts: the queue of each, and what happens to jobs whose host is not served."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from farm.dispatch import SLOW_MESSAGE_SECONDS
from farm.jobs import JobError, JobStatus, JobView
from farm.store import Store
from farm.store.transitions import end_unserved
from farm.store.workers import busy, present

HOST_QUEUE = "lockstep.host."
WAIT_SECONDS = 60.0
"""How long jobs wait for the worker of their host before they end as ``infra``."""
DEAF_SECONDS = SLOW_MESSAGE_SECONDS + 5.0
"""A worker that took nothing for this long is told of: a message that was lost is sent again before."""
HOW_TO_HEAR = "look at its log, and give it the broker of this command"


def host_queue(name: str) -> str:
    """The queue of the device host ``name``."""
    return HOST_QUEUE + name


def who(queue: str) -> str:
    """A queue in an operator's words."""
    return f"host {queue.removeprefix(HOST_QUEUE)}" if queue.startswith(HOST_QUEUE) else f"queue {queue}"


def how_to_serve(queue: str) -> str:
    """What to type so that a queue is served."""
    name = f" --name {queue.removeprefix(HOST_QUEUE)}" if queue.startswith(HOST_QUEUE) else ""
    return f"start `lockstep worker{name}` there, with the same broker and store"


class HostWatch:
    """Notices queues that no worker takes messages from; jobs that wait for one too long end as ``infra``.

    A worker that is there need not take anything: it may have lost the broker, or have another one than we. So a
    queue is also noticed when messages wait in it and nothing of it moves or runs. ``reached`` says whether the
    broker of this command answers: without it nobody can take anything, and the wait begins anew.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        own: str | None,
        wait: float = WAIT_SECONDS,
        reached: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._own = own  # None: the run's own queue is served by workers of this session
        self._wait = wait
        self._reached = reached
        self._since: dict[str, float] = {}
        self._waiting: dict[str, dict[str, float]] = {}

    def look(self, jobs: Iterable[JobView], sent: Iterable[JobView] = ()) -> tuple[str, ...]:
        """A note for each queue that jobs wait at in vain; ends those jobs when the wait is over.

        ``jobs`` has at least one of each queue that has something to do, ``sent`` those on their way or running.
        """
        queues = {queue for job in jobs if not job.status.ended and (queue := job.queue or self._own)}
        there = present(self._store) if queues else ()
        absent = queues - {worker.queue for worker in there}
        deaf = queues - absent - {worker.queue for worker in there if worker.slots}
        deaf |= self._untaken(queues - absent - deaf, list(sent))
        now = time.monotonic()
        self._since = {queue: self._since.get(queue, now) for queue in absent | deaf}
        noted = {queue for queue in deaf if now - self._since[queue] >= min(self._wait, DEAF_SECONDS)} | absent
        if any(now - since >= min(self._wait, DEAF_SECONDS) for since in self._since.values()) and not self._reached():
            self._since = {}
        for queue, since in self._since.items():
            if now - since >= self._wait:
                why = f"no worker serves {who(queue)}" if queue in absent else f"the worker of {who(queue)} took no job"
                error = self._error(why, how_to_serve(queue) if queue in absent else HOW_TO_HEAR)
                end_unserved(self._store, self._run_id, "" if queue == self._own else queue, error)
        return tuple(_note(queue, absent=queue in absent) for queue in sorted(noted))

    def _untaken(self, queues: set[str], sent: Sequence[JobView]) -> set[str]:
        """Those of ``queues`` in which messages waited since the last look, and nothing moved."""
        before, self._waiting = self._waiting, {queue: {} for queue in queues}
        for job in sent:
            queue = job.queue or self._own
            if queue in queues and job.status == JobStatus.QUEUED:
                self._waiting[queue][job.id] = job.not_before  # who takes a message and cannot run the job sets this
        return {
            queue
            for queue, waiting in self._waiting.items()
            if waiting
            and all(waiting.get(job) == mark for job, mark in before.get(queue, {}).items())
            and not busy(self._store, queue)
        }

    def _error(self, why: str, hint: str) -> JobError:
        return JobError(
            type="HostUnserved", message=f"{why}; waited {self._wait:.0f} s", hint=f"{hint}, then run again"
        )


def _note(queue: str, *, absent: bool) -> str:
    if absent:
        return f"no worker serves {who(queue)}: {how_to_serve(queue)}"
    return f"the worker of {who(queue)} takes no job: {HOW_TO_HEAR}"
