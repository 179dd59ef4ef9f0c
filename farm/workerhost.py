"""The worker host: one process an execution slot, forked from one warm parent.

The parent imports everything once, forks the slots, restarts a slot that dies and takes back its job. It says in the
store how many slots take messages: a slot says so itself once it does, and ends when it lost the broker. Slots are
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

from engine.contract.errors import BrokerError, InfraError, LockstepError, StoreError
from farm import tasks
from farm.attempt import run_job
from farm.broker import ExternalBroker
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
PID_BYTES = 4
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
    """The living slots (pid → worker name), those that ever took messages, and how often one died young."""

    names: dict[int, str] = field(default_factory=dict)
    born: dict[int, float] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
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
        self._said = 0
        self._orphans = Orphans(self._store)
        # Slots hold the reading end only: it ends when this process does, however it dies
        self._parent_read, self._parent_write = os.pipe()
        self._ready_read, self._ready_write = os.pipe()

    def run(self) -> int:
        """Serve until SIGTERM or Ctrl-C (0), the gate's death (0) or, for a gate, slots that cannot live (1).

        ``InfraError`` when the slots of a user's own worker cannot, ``BrokerError``, ``StoreError``, ``UsageError``
        when another host serves the same name.
        """
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        with self._store as store:  # a store that cannot be used is told now, not by every slot
            if not self._is_private:
                _ask(self._settings.broker)
                workers.join(store, self._name, self._settings.queue, alone=self._is_alone)
        try:
            return self._serve()
        finally:
            if not self._is_private:
                with self._store as store:
                    workers.leave(store, self._name)

    def _serve(self) -> int:
        for _ in range(self._settings.slots):
            self._fork()
        try:
            while not self._stop and self._slots.quick_deaths < MAX_QUICK_DEATHS:
                if self._gate_is_gone():
                    self._kill_slots()
                    with self._store as store:
                        abandon_driver(store, self._settings.queue)
                    return 0
                self._bury()
                self._beat()
        except LockstepError:
            self._drain()
            raise
        self._drain()
        if self._stop or self._is_private:
            return 0 if self._stop else 1
        raise InfraError("the slots of this worker end as soon as they begin", hint="the lines above say why")

    @property
    def _is_private(self) -> bool:
        """Workers of one gate serve its own queue, and the gate itself watches them."""
        return self._settings.fate_fd is not None

    @property
    def _is_alone(self) -> bool:
        """The queue of a device host has one server: another one would not have its devices."""
        return self._settings.queue.startswith(HOST_QUEUE)

    def _beat(self) -> None:
        """Say in the store that this host is there, and end the runs of controllers that are there no more.

        ``UsageError`` when another host took the name while this one was not seen.
        """
        slots = len(self._slots.ready & self._slots.names.keys())
        if self._is_private or (slots == self._said and time.monotonic() < self._beat_at):
            return
        self._beat_at = time.monotonic() + workers.BEAT_SECONDS
        self._said = slots
        try:
            with self._store as store:
                workers.beat(store, self._name, self._settings.queue, slots, alone=self._is_alone)
                for run in self._orphans.look():
                    log.warning("run=%s abandoned: nobody drives it any more", run)
        except StoreError as error:  # its slots find out for themselves
            log.warning("not seen by others for a while: %s", error.message)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop = True

    def _gate_is_gone(self) -> bool:
        """Wait a moment, and hear which slots are ready; True once the other end of the fate pipe is closed."""
        watched = [] if self._settings.fate_fd is None else [self._settings.fate_fd]
        heard = select.select([*watched, self._ready_read], [], [], 0.05)[0]
        if self._ready_read in heard:
            self._slots.ready.add(int.from_bytes(os.read(self._ready_read, PID_BYTES)))
        return any(fate in heard for fate in watched)

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
        watch.reached.wait()  # Celery would ask less and less often

        def run(job_id: str) -> None:
            watch.job(
                lambda: run_job(self._store, job_id, settings.executor, name, on_stuck=_kill_own_group),
            )

        def ready() -> None:
            os.write(self._ready_write, os.getpid().to_bytes(PID_BYTES))
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
        self._slots.ready.clear()


def worker_name(pid: int, queue: str = "") -> str:
    """How a slot signs its leases: process and host, and the name that a device host was given."""
    place = f"{pid}@{socket.gethostname()}"
    return f"{place}/{queue.removeprefix(HOST_QUEUE)}" if queue.startswith(HOST_QUEUE) else place


def _ask(broker: str) -> None:
    """``BrokerError`` unless the broker answers."""
    try:
        ExternalBroker(broker).ensure()
    except BrokerError as error:
        raise BrokerError(error.message, hint="start it or mend its URL, then start this worker again") from error


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
