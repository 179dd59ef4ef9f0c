"""Drives one run: sends its jobs to the queue, watches the job table, brings back what got lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.contract.errors import BrokerError, StoreError
from farm.broker import Broker
from farm.dispatch import Board
from farm.hosts import WAIT_SECONDS, HostWatch
from farm.jobs import JobView, Priority, RunSummary, RunUpdate
from farm.jobtable import JobTable
from farm.stopping import undisturbed
from farm.store import Store, jobs_of
from farm.store.clock import ClockWatch, follow_clock
from farm.store.jobs import finish_run, run_priority, touch_run
from farm.store.runs import check_cancelled
from farm.store.transitions import cancel_jobs, reclaim, reserve, unreserve
from farm.tasks import Publisher

POLL_SECONDS = 0.05
UPKEEP_SECONDS = 0.5
MAX_SENT = 64
"""How many jobs are sent at once to workers whose number is not known."""
REFUSED_SECONDS = 0.2
"""A device that somebody else has is not asked for again so soon."""
BROKER_RETRY_SECONDS = 0.5
BROKER_GIVE_UP_SECONDS = 120.0
STORE_GIVE_UP_SECONDS = 30.0
log = logging.getLogger("lockstep.controller")


@dataclass
class _Drive:
    """One run as its controller sees it. ``doubt``: the table may be out of date beyond what is on its way."""

    run_id: str
    table: JobTable
    hosts: HostWatch
    clock: ClockWatch
    notes: tuple[str, ...] = ()
    changed: bool = True
    doubt: bool = False
    upkeep_at: float = 0.0


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
        self._unreached_at: float | None = None
        self._store_lost_at: float | None = None
        self._refused: dict[str, float] = {}

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
        table = JobTable(self._store, run_id)
        own = self._queue if self._slots is None else None
        hosts = HostWatch(self._store, run_id, own, self._host_wait, self._reached)
        drive = _Drive(run_id, table, hosts, ClockWatch(self._store.clock))
        while not self._survives_store(drive, on_update):
            time.sleep(POLL_SECONDS)
        check_cancelled(self._store, run_id)

    def _survives_store(self, drive: _Drive, on_update: Callable[[RunUpdate], None]) -> bool:
        """One round; a store that fails for a moment costs nothing but that round. Signals wait for its end."""
        try:
            with undisturbed:
                ended = self._round(drive, on_update)
        except StoreError as error:
            now = time.monotonic()
            self._store_lost_at = self._store_lost_at or now
            if now - self._store_lost_at > STORE_GIVE_UP_SECONDS:
                raise
            log.warning("store: %s", error.message)
            drive.doubt = True
            return False
        self._store_lost_at = None
        return ended

    def _round(self, drive: _Drive, on_update: Callable[[RunUpdate], None]) -> bool:
        """Look and act once; True when every job has ended."""
        jump = drive.clock.jump()
        if jump:
            log.warning("the clock jumped by %.1f s", jump)
            follow_clock(self._store, drive.run_id, jump)
            self._refused.clear()
            drive.doubt, drive.upkeep_at = True, 0.0
        if time.monotonic() >= drive.upkeep_at:
            self._keep_up(drive)
        drive.changed = drive.table.refresh() or drive.changed
        if drive.changed:
            on_update(RunUpdate(run_id=drive.run_id, jobs=drive.table.jobs, notes=drive.notes))
        if drive.table.ended:
            return True
        drive.changed = drive.table.read(self._dispatch(drive.table))
        return False

    def _keep_up(self, drive: _Drive) -> None:
        touch_run(self._store, drive.run_id, self._queue)
        drive.doubt = reclaim(self._store, drive.run_id) or drive.doubt
        self._upkeep()
        before, drive.notes = drive.notes, drive.hosts.look(drive.table.one_open_job_a_queue(), drive.table.sent())
        drive.changed = drive.table.verify(doubt=drive.doubt) or drive.notes != before or drive.changed
        drive.doubt = False
        drive.upkeep_at = time.monotonic() + UPKEEP_SECONDS

    def _dispatch(self, table: JobTable) -> list[str]:
        """Send what can be sent; the ids of the jobs that were touched.

        Each queue on its own: how many slots another host has is not ours to know.
        """
        sent: list[str] = []
        for queue, board in table.boards.items():
            sent += self._dispatch_queue(board, None if queue else self._slots)
        return sent

    def _dispatch_queue(self, board: Board, slots: int | None) -> list[str]:
        now = self._store.clock()
        if time.monotonic() < self._broker_retry_at:
            return []
        jobs = board.lost_messages(now, slots)
        for job in jobs:
            log.warning("job=%s device=%s message lost, sent again", job.id, job.device)
        room = MAX_SENT - len(jobs) if slots is None else min(MAX_SENT, board.room(slots))
        self._refused = {device: until for device, until in self._refused.items() if until > now}
        jobs += board.choose(self._refused, now, room)
        return self._send(jobs, now) if jobs else []

    def _send(self, jobs: Sequence[JobView], now: float) -> list[str]:
        reserved = reserve(self._store, [job.id for job in jobs])
        for job in jobs:
            if job.id not in reserved:
                self._refused[job.device] = now + REFUSED_SECONDS
            elif time.monotonic() < self._broker_retry_at:
                unreserve(self._store, job.id)
            else:
                self._publish(job)
        return [job.id for job in jobs]

    def _publish(self, job: JobView) -> None:
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
            # Asking may have taken seconds: the heartbeat of the run comes before what else there is to send
            self._broker_retry_at = time.monotonic() + BROKER_RETRY_SECONDS

    def _reached(self) -> bool:
        """Whether the broker answers; ``BrokerError`` when it does not for two minutes."""
        now = time.monotonic()
        try:
            self._broker.ensure()
        except BrokerError as error:
            log.warning("broker: %s", error.message)
            self._unreached_at = self._unreached_at or now
            if now - self._unreached_at > BROKER_GIVE_UP_SECONDS:
                raise
            return False
        self._unreached_at = None
        return True
