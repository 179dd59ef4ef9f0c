"""Drives one run: sends its jobs to the queue, watches the job table, brings back what got lost."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from engine.contract.errors import BrokerError
from farm.broker import Broker
from farm.dispatch import choose, lost_messages, outstanding
from farm.hosts import WAIT_SECONDS, HostWatch
from farm.jobs import JobStatus, JobView, Priority, RunSummary, RunUpdate
from farm.store import Store, jobs_of
from farm.store.jobs import fingerprint, finish_run, run_priority, touch_run
from farm.store.runs import check_cancelled
from farm.store.transitions import busy_devices, cancel_jobs, reclaim, reserve, unreserve
from farm.store.turns import awaited_devices
from farm.tasks import Publisher

POLL_SECONDS = 0.05
UPKEEP_SECONDS = 0.5
BROKER_RETRY_SECONDS = 0.5
BROKER_GIVE_UP_SECONDS = 120.0
log = logging.getLogger("lockstep.controller")


class Controller:
    """Runs the jobs of a run to their end.

    ``slots`` is how many jobs its workers run at a time (None: unknown, the user's own workers); ``upkeep`` is
    called about twice a second and may raise to end the run; ``host_wait`` is how many seconds jobs wait for a
    worker of their host.
    """

    def __init__(
        self,
        store: Store,
        broker: Broker,
        *,
        queue: str,
        slots: int | None,
        upkeep: Callable[[], None] = lambda: None,
        host_wait: float = WAIT_SECONDS,
    ) -> None:
        self._store = store
        self._broker = broker
        self._queue = queue
        self._slots = slots
        self._upkeep = upkeep
        self._host_wait = host_wait
        self._priority = int(Priority.INTERACTIVE)
        self._publisher: Publisher | None = None
        self._broker_lost_at: float | None = None
        self._broker_retry_at = 0.0

    def run(self, run_id: str, on_update: Callable[[RunUpdate], None] = lambda _: None) -> RunSummary:
        """Drive ``run_id`` until every job has ended; on any exception (Ctrl-C too) what is left is cancelled.

        ``on_update`` gets the whole table whenever a job changed. ``RunCancelled`` when somebody ended the run,
        ``StoreError``, or ``BrokerError`` when the broker stays away for two minutes.
        """
        started = time.monotonic()
        try:
            self._drive(run_id, on_update)
        except BaseException:
            cancel_jobs(self._store, run_id, "the run was stopped")
            finish_run(self._store, run_id, "cancelled")
            raise
        finally:
            if self._publisher is not None:
                self._publisher.close()
                self._publisher = None
        finish_run(self._store, run_id, "done")
        return RunSummary(run_id=run_id, seconds=time.monotonic() - started, jobs=jobs_of(self._store, run_id))

    def _drive(self, run_id: str, on_update: Callable[[RunUpdate], None]) -> None:
        self._priority = run_priority(self._store, run_id)  # an unknown run is an error, not a run without jobs
        hosts = HostWatch(self._store, run_id, self._queue if self._slots is None else None, self._host_wait)
        notes: tuple[str, ...] = ()
        seen: tuple[object, ...] | None = None
        jobs: tuple[JobView, ...] = ()
        upkeep_at = 0.0
        while True:
            if time.monotonic() >= upkeep_at:
                touch_run(self._store, run_id, self._queue)
                reclaim(self._store, run_id)
                self._upkeep()
                before, notes = notes, hosts.look(jobs)
                seen = seen if notes == before else None
                upkeep_at = time.monotonic() + UPKEEP_SECONDS
            now_there = fingerprint(self._store, run_id)
            if now_there != seen:
                seen = now_there
                jobs = jobs_of(self._store, run_id, documents=False)
                on_update(RunUpdate(run_id=run_id, jobs=jobs, notes=notes))
            if all(job.status.ended for job in jobs):
                check_cancelled(self._store, run_id)
                return
            self._dispatch(jobs)
            time.sleep(POLL_SECONDS)

    def _dispatch(self, jobs: tuple[JobView, ...]) -> None:
        """Each queue on its own: how many slots another host has is not ours to know."""
        queues = defaultdict(list)
        for job in jobs:
            queues[job.queue].append(job)
        for queue, there in queues.items():
            self._dispatch_queue(there, None if queue else self._slots)

    def _dispatch_queue(self, jobs: Sequence[JobView], slots: int | None) -> None:
        now = self._store.clock()
        if time.monotonic() < self._broker_retry_at:
            return
        for job in lost_messages(jobs, now, slots):
            log.warning("job=%s device=%s message lost, sent again", job.id, job.device)
            self._send(job)
        # One message more than slots a slot waits in the queue, so that a slot never waits for our poll
        room = len(jobs) if slots is None else 2 * slots - sum(map(outstanding, jobs))
        if room <= 0 or not any(job.status == JobStatus.QUEUED and job.dispatched is None for job in jobs):
            return
        with self._store.read() as session:
            closed = busy_devices(session, now) | awaited_devices(session, now, self._priority)
        for job in choose(jobs, closed, now, room):
            self._send(job)

    def _send(self, job: JobView) -> None:
        if time.monotonic() < self._broker_retry_at or not reserve(self._store, job.id):
            return
        try:
            if self._publisher is None:
                self._publisher = Publisher(self._broker.url, self._queue)
            self._publisher.send(job.id, job.queue, self._priority)
            self._broker_lost_at = None
        except BrokerError as error:
            unreserve(self._store, job.id)
            self._mend_broker(error)

    def _mend_broker(self, error: BrokerError) -> None:
        """Bring the broker back if it is ours; keep trying for a while if it is not."""
        log.warning("broker: %s", error.message)
        now = time.monotonic()
        self._broker_retry_at = now + BROKER_RETRY_SECONDS
        self._broker_lost_at = self._broker_lost_at or now
        try:
            self._broker.ensure()
        except BrokerError:
            if now - self._broker_lost_at > BROKER_GIVE_UP_SECONDS:
                raise
