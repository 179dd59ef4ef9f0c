"""The worker host: one process an execution slot, forked from one warm parent.

The parent imports everything once, forks the slots, restarts a slot that dies and takes back its job. Slots are
process groups of their own, so that what runs below a slot ends with it. With ``Settings.fate_fd`` (workers that a
gate starts) the end of that pipe means that the gate is gone: everything is killed and the gate's runs are abandoned.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType

from engine.contract.errors import StoreError
from farm import tasks
from farm.attempt import run_job
from farm.hosts import HOST_QUEUE
from farm.jobs import Executor
from farm.orphans import Orphans
from farm.store import workers
from farm.store.database import Store
from farm.store.transitions import abandon_driver, lose_worker
from farm.watch import BrokerWatch

GRACE_SECONDS = 10.0
MAX_QUICK_DEATHS = 5
LOST_BROKER = 75
log = logging.getLogger("lockstep.worker")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a worker host was started with."""

    executor: Executor
    broker: str
    queue: str
    store: str | None
    slots: int
    fate_fd: int | None
    ready_fd: int | None


@dataclass
class Slots:
    """The living slots (pid → worker name) and how often one died young."""

    names: dict[int, str] = field(default_factory=dict)
    born: dict[int, float] = field(default_factory=dict)
    quick_deaths: int = 0


class WorkerHost:
    """Forks and watches the slots."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.store)  # opened for a moment where needed: no connection crosses a fork
        self._slots = Slots()
        self._stop = False
        self._name = worker_name(os.getpid(), settings.queue)
        self._beat_at = 0.0
        self._orphans = Orphans(self._store)
        # Slots hold the reading end only: it ends when this process does, however it dies
        self._parent_read, self._parent_write = os.pipe()

    def run(self) -> int:
        """Serve until SIGTERM or Ctrl-C (0), the gate's death (0) or slots that cannot live (1)."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        with self._store as store:  # a store that cannot be used is told now, not by every slot
            if not self._is_private:
                alone = self._settings.queue.startswith(HOST_QUEUE)
                workers.join(store, self._name, self._settings.queue, self._settings.slots, alone=alone)
        try:
            return self._serve()
        finally:
            if not self._is_private:
                with self._store as store:
                    workers.leave(store, self._name)

    def _serve(self) -> int:
        for _ in range(self._settings.slots):
            self._fork()
        while not self._stop and self._slots.quick_deaths < MAX_QUICK_DEATHS:
            if self._gate_is_gone():
                self._kill_slots()
                with self._store as store:
                    abandon_driver(store, self._settings.queue)
                return 0
            self._bury()
            self._beat()
        self._drain()
        return 0 if self._stop else 1

    @property
    def _is_private(self) -> bool:
        """Workers of one gate serve its own queue, and the gate itself watches them."""
        return self._settings.fate_fd is not None

    def _beat(self) -> None:
        """Say in the store that this host is there, and end the runs of controllers that are there no more."""
        if self._is_private or time.monotonic() < self._beat_at:
            return
        self._beat_at = time.monotonic() + workers.BEAT_SECONDS
        try:
            with self._store as store:
                workers.beat(store, self._name)
                for run in self._orphans.look():
                    log.warning("run=%s abandoned: nobody drives it any more", run)
        except StoreError as error:  # its slots find out for themselves
            log.warning("not seen by others for a while: %s", error.message)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop = True

    def _gate_is_gone(self) -> bool:
        """Wait a moment; True once the other end of the fate pipe is closed."""
        watched = [] if self._settings.fate_fd is None else [self._settings.fate_fd]
        return bool(select.select(watched, [], [], 0.05)[0])

    def _fork(self) -> None:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self._be_slot()
                status = 0
            except BaseException:
                log.exception("slot pid=%d ended", os.getpid())
            finally:
                logging.shutdown()
                os._exit(status)
        self._slots.names[pid] = worker_name(pid, self._settings.queue)
        self._slots.born[pid] = time.monotonic()

    def _be_slot(self) -> None:
        settings = self._settings
        os.setsid()
        os.close(self._parent_write)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fates = [self._parent_read] + ([] if settings.fate_fd is None else [settings.fate_fd])
        threading.Thread(target=_share_fate, args=(fates,), name="fate", daemon=True).start()
        name = worker_name(os.getpid(), settings.queue)
        watch = BrokerWatch(settings.broker, _leave_lost_broker)
        watch.start()

        def run(job_id: str) -> None:
            watch.job(
                lambda: run_job(self._store, job_id, settings.executor, name, on_stuck=_kill_own_group),
            )

        def ready() -> None:
            if settings.ready_fd is not None:
                with contextlib.suppress(OSError):  # nobody waits any more
                    os.write(settings.ready_fd, b"r")

        with self._store:
            tasks.serve(settings.broker, settings.queue, name, run, ready)

    def _bury(self) -> None:
        """Take back the jobs of slots that died, and fork new ones."""
        for pid in list(self._slots.names):
            # WNOWAIT: the pid stays taken until its whole group has been killed
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill_group(pid)
            _, status = os.waitpid(pid, 0)
            name = self._slots.names.pop(pid)
            age = time.monotonic() - self._slots.born.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            log.warning("worker=%s ended after %.1f s with code %d", name, age, code)
            self._take_back(name)
            died_young = age < 1.0 and code != LOST_BROKER
            self._slots.quick_deaths = self._slots.quick_deaths + 1 if died_young else 0
            self._fork()

    def _take_back(self, name: str) -> None:
        """What a dead slot had; without the store its leases end by themselves."""
        try:
            with self._store as store:
                lose_worker(store, name)
        except StoreError as error:
            log.warning("worker=%s not taken back: %s", name, error.message)

    def _drain(self) -> None:
        """Let running jobs end for a while, then kill what is left."""
        for pid in self._slots.names:
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + GRACE_SECONDS
        waiting = set(self._slots.names)
        while waiting and time.monotonic() < end and not self._gate_is_gone():
            gone = {p for p in waiting if os.waitid(os.P_PID, p, os.WEXITED | os.WNOHANG | os.WNOWAIT)}
            waiting -= gone
        self._kill_slots()

    def _kill_slots(self) -> None:
        for pid in self._slots.names:
            _kill_group(pid)
            os.waitpid(pid, 0)
        with self._store as store:
            for name in self._slots.names.values():
                lose_worker(store, name)
        self._slots.names.clear()


def worker_name(pid: int, queue: str = "") -> str:
    """How a slot signs its leases: process and host, and the name that a device host was given."""
    place = f"{pid}@{socket.gethostname()}"
    return f"{place}/{queue.removeprefix(HOST_QUEUE)}" if queue.startswith(HOST_QUEUE) else place


def _share_fate(fds: Sequence[int]) -> None:
    """Kill this slot and all below it as soon as one of the pipes ends."""
    select.select(fds, [], [])
    _kill_own_group()


def _leave_lost_broker() -> None:
    log.warning("the broker went away: this slot makes room for a new one")
    logging.shutdown()
    os._exit(LOST_BROKER)


def _kill_own_group() -> None:
    os.killpg(0, signal.SIGKILL)


def _kill_group(pid: int) -> None:
    # the slot may have died before it had a group of its own
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
