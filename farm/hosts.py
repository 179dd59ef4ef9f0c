"""Device hosts: the queue of each, and what happens to jobs whose host is not served."""

from __future__ import annotations

import time
from collections.abc import Iterable

from farm.jobs import JobError, JobView
from farm.store import Store
from farm.store.transitions import end_unserved
from farm.store.workers import unserved

HOST_QUEUE = "lockstep.host."
WAIT_SECONDS = 60.0
"""How long jobs wait for the worker of their host before they end as ``infra``."""


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
    """Notices queues that no worker serves; jobs that wait for one too long end as ``infra``."""

    def __init__(self, store: Store, run_id: str, own: str | None, wait: float = WAIT_SECONDS) -> None:
        self._store = store
        self._run_id = run_id
        self._own = own  # None: the run's own queue is served by workers of this session
        self._wait = wait
        self._absent: dict[str, float] = {}

    def look(self, jobs: Iterable[JobView]) -> tuple[str, ...]:
        """A note for each queue that jobs wait at in vain; ends those jobs when the wait is over."""
        queues = {job.queue or self._own for job in jobs if not job.status.ended} - {None}
        missing = unserved(self._store, [queue for queue in queues if queue]) if queues else set()
        now = time.monotonic()
        self._absent = {queue: self._absent.get(queue, now) for queue in missing}
        for queue, since in self._absent.items():
            if now - since >= self._wait:
                end_unserved(self._store, self._run_id, "" if queue == self._own else queue, self._error(queue))
        return tuple(f"no worker serves {who(queue)}: {how_to_serve(queue)}" for queue in sorted(missing))

    def _error(self, queue: str) -> JobError:
        return JobError(
            type="HostUnserved",
            message=f"no worker serves {who(queue)}; waited {self._wait:.0f} s",
            hint=f"{how_to_serve(queue)}, then run again",
        )
