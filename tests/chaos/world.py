"""One scenario: a farm with a real broker, real workers and two devices, and everything a fault may lay hands on."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from sqlalchemy import text

from farm import dispatch
from farm.inventory import Device, Link
from farm.jobs import AttemptView, JobSpec, JobView, RunSpec
from farm.session import FarmSession
from farm.store import Store, attempts_of, create_run, jobs_of
from farm.store.models import RunRow
from farm.valkey import read_endpoint
from tests.chaos.boards import Board, Phones, adb_board, ssh_board
from tests.chaos.engine import Engine
from tests.chaos.scenario import Fault
from tests.waiting import PATIENCE, wait_until

EXECUTOR = "tests.chaos.executor:execute"
REPOSITORY = Path(__file__).parents[2]
#: A lease is ten seconds long in earnest; everything that waits for one is shortened alike.
LEASE_SECONDS = 5.0
LOST_MESSAGE_SECONDS = 2.5
RUNNER_SECONDS = 60.0
#: The device that faults are aimed at.
VICTIMS = "device-0"
#: Case, device and position of each job.
JOBS = (("victim", VICTIMS, 0), ("after", VICTIMS, 1), ("other", "device-1", 0), ("regressed", "device-1", 1))
#: What is left for the runner to take, where it sees it; all else is for the executor.
OF_THE_RUNNER = ("running", "runner")

# What the store itself saw: every change of a job's state and of its result, in order, by the host's real clock.
WITNESS = (
    """
CREATE TABLE witness (job TEXT, before TEXT, after TEXT, attempts INTEGER, result INTEGER, at REAL)
""",
    """
CREATE TRIGGER witness_of_jobs AFTER UPDATE ON jobs WHEN OLD.status != NEW.status OR OLD.result IS NOT NEW.result
BEGIN
    INSERT INTO witness VALUES (
        NEW.id, OLD.status, NEW.status, NEW.attempts, OLD.result IS NOT NEW.result,
        (julianday('now') - 2440587.5) * 86400.0
    );
END
""",
)


@dataclass(frozen=True)
class Change:
    """One change of a job as the store saw it; ``at`` is in seconds since 1970, not moved by a clock that jumps."""

    job: str
    before: str
    after: str
    attempts: int
    result: bool
    at: float


@dataclass(frozen=True)
class Evidence:
    """What is left of a scenario. ``struck`` is when the fault was over or, if it lasts, when it began."""

    jobs: tuple[JobView, ...]
    attempts: dict[str, tuple[AttemptView, ...]]
    changes: tuple[Change, ...]
    device_logs: dict[str, tuple[str, ...]]
    leftovers: tuple[str, ...]
    struck: float | None
    right: str
    regressed: str


class _Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@dataclass
class World:
    """``with World(link, phones) as world: evidence = world.run(fault, moment)``; ``phones`` for the link adb.

    ``payload`` goes with the run; ``silence`` is how many seconds an adb transfer may stand still, when not as usual.
    ``seen`` is what a fault saw of its own effect, for its proof.
    """

    link: str
    phones: Phones | None = None
    seconds: float = RUNNER_SECONDS
    small_disk: bool = False
    jobs: tuple[tuple[str, str, int], ...] = JOBS
    payload: dict[str, Any] = field(default_factory=dict)
    silence: float | None = None
    board: Board | None = field(init=False, default=None)
    folder: Path = field(init=False)
    struck: float | None = field(init=False, default=None)
    moment: str = field(init=False, default="")
    run_id: str = field(init=False, default="")
    command: subprocess.Popen[str] | None = field(init=False, default=None)
    session: FarmSession | None = field(init=False, default=None)
    seen: dict[str, int] = field(init=False, default_factory=dict)
    _warned: _Kept = field(init=False, default_factory=_Kept)

    def __enter__(self) -> World:
        self.folder = Path(tempfile.mkdtemp(prefix="lschaos-"))  # short: socket paths are limited
        self.state, self.chaos = self.folder / "state", self.folder / "chaos"
        self.chaos.mkdir()
        self._stack = ExitStack()
        logging.getLogger("lockstep").addHandler(self._warned)
        self._stack.callback(logging.getLogger("lockstep").removeHandler, self._warned)
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._stack.callback(self._wait_for_silence)
        with self._stack:
            self.engine = Engine(self.folder / "engine")
            self.board = self._board()  # before the patch: an adb device is not of this farm alone
            self._patch()
            self.store = self._stack.enter_context(Store(f"sqlite:///{self.state / 'lockstep.db'}", self.clock))
            with self.store.write() as session:
                for statement in WITNESS:
                    session.execute(text(statement))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.command is not None:
            self.command.kill()
            self.command.communicate()
        self._stack.close()

    # -- what faults use --------------------------------------------------------------------------

    def clock(self) -> float:
        """The host's clock, as wrong as ``jump`` made it."""
        try:
            return time.time() + float((self.chaos / "clock").read_text())
        except (FileNotFoundError, ValueError):
            return time.time()

    def jump(self, seconds: float) -> None:
        """Move the wall clock of the whole host."""
        (self.chaos / ".clock").write_text(str(seconds))
        (self.chaos / ".clock").rename(self.chaos / "clock")

    def order(self, name: str, words: str = "") -> None:
        """Leave a file that the executor or the runner takes, once."""
        place = self.meeting if name.startswith(OF_THE_RUNNER) else self.chaos
        (place / f".{name}").write_text(words)
        (place / f".{name}").chmod(0o666)
        (place / f".{name}").rename(place / name)  # it may be taken at once

    def was_taken(self, name: str) -> bool:
        """Whether the executor or the runner took what ``order`` left."""
        return any((place / f"{name}.taken").exists() for place in {self.chaos, self.meeting})

    def device(self) -> Board:
        """The victim's device, behind a link."""
        assert self.board is not None
        return self.board

    @property
    def meeting(self) -> Path:
        """Where the victim's runner meets the scenario, as this host sees it."""
        return self.board.meeting if self.board else self.chaos

    def stop_at(self, moment: str, case: str = "victim") -> None:
        """Have a victim stop when it comes to ``moment`` for the first time."""
        self.order(f"{moment}-{case}")

    def reached(self) -> bool:
        """True while a victim stops at its moment."""
        return any(path.exists() for path in self._told())

    def let_go(self, moment: str, case: str = "victim") -> None:
        """The victim goes on."""
        for path in self._told():
            path.unlink(missing_ok=True)
            path.with_name(f"{moment}-{case}.taken").unlink(missing_ok=True)

    def _told(self) -> tuple[Path, ...]:
        return tuple(place / "reached" for place in {self.chaos, self.meeting})

    def victim(self, case: str = "victim") -> JobView:
        """The job that the fault is aimed at."""
        return next(job for job in jobs_of(self.store, self.run_id) if job.case == case)

    def tries(self) -> tuple[AttemptView, ...]:
        """The attempts at the victim so far."""
        return attempts_of(self.store, self.victim().id)

    def slot(self) -> int:
        """The process that has the victim, be it before its claim."""
        told = next(path for path in self._told() if path.exists()).read_text()
        return int(told) if told else int(self.tries()[-1].worker.partition("@")[0])

    def processes(self, word: str = "") -> list[int]:
        """Every process of this farm whose command holds ``word``, but for its adb server, which may stay a while."""
        marker = f"LOCKSTEP_STATE={self.state}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if "agents.adbdaemon" in command:
                    continue
                if word in command and (marker in (entry / "environ").read_bytes() or str(self.state) in command):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def left(self, number: int) -> bool:
        """True once the attempt ``number`` at the victim has spoken its last word to the store."""
        log = self.chaos / "attempts.jsonl"
        wanted = f'{{"what": "left", "case": "victim", "attempt": {number}}}'
        return log.exists() and wanted in log.read_text().splitlines()

    def broker(self) -> tuple[str, str]:
        """URL and queue of the session's broker."""
        endpoint = read_endpoint(self.state / "broker")
        assert endpoint is not None
        with self.store.read() as session:
            return endpoint.url, session.get_one(RunRow, self.run_id).driver

    def workers_log(self) -> str:
        """What the worker hosts and their slots said."""
        return "".join(path.read_text(errors="replace") for path in sorted((self.state / "logs").glob("*.log")))

    def controllers_log(self) -> str:
        """What the farm warned of in this process."""
        return "\n".join(self._warned.lines)

    def brokers_log(self) -> str:
        """What the broker's servers said, one after the other."""
        return (self.state / "broker" / "valkey.log").read_text(errors="replace")

    def strike_now(self) -> None:
        """The moment from which recovery is counted."""
        self.struck = time.time()

    # -- the run -------------------------------------------------------------------------------------

    def calm(self) -> Evidence:
        """Run the same jobs undisturbed."""
        self.run_id = self._plan()
        with FarmSession(executor=EXECUTOR, slots=2, store_url=self.store.url) as session:
            session.run(self.run_id)
        return self._evidence()

    def run(self, fault: Fault, moment: str) -> Evidence:
        """Run four jobs on two devices and let ``fault`` strike once the victim reaches ``moment``."""
        self.run_id, self.moment = self._plan(), moment
        fault.arm(self)
        self.stop_at(moment)
        over = threading.Event()
        faults: list[BaseException] = []
        self._struck = threading.Event()
        striking = threading.Thread(target=self._strike, args=(moment, fault, over, faults), daemon=True)
        striking.start()
        try:
            if fault.controller:
                self._run_apart()
            else:
                with FarmSession(executor=EXECUTOR, slots=2, store_url=self.store.url) as self.session:
                    self.session.store.clock = self.clock
                    self.session.run(self.run_id)
                    self._struck.wait(PATIENCE)
                    fault.after(self)
        finally:
            over.set()
            self.let_go(moment)
            striking.join()
        if faults:
            raise faults[0]
        return self._evidence()

    def run_again(self, evidence: Evidence) -> Evidence:
        """What people do after a run that was abandoned: run what is missing."""
        missing = [job for job in evidence.jobs if job.result is None]
        again = [JobSpec(case=job.case, device=job.device, position=job.position, spec=job.spec) for job in missing]
        self.run_id = create_run(self.store, RunSpec(suite="chaos", engine="chaos", command="again"), again)
        with FarmSession(executor=EXECUTOR, slots=2, store_url=self.store.url) as session:
            session.run(self.run_id)
        return self._evidence()

    def _strike(self, moment: str, fault: Fault, over: threading.Event, faults: list[BaseException]) -> None:
        try:
            wait_until(self.reached, over=over)
            self.strike_now()
            fault.strike(self)
        except BaseException as error:
            faults.append(error)
        finally:
            self.let_go(moment)
            self._struck.set()
            over.wait()  # what this thread started asked to end with its parent, and that is this thread

    def _run_apart(self) -> None:
        with (self.folder / "command.log").open("wb") as log:
            self.command = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.drive", self.store.url, self.run_id],
                cwd=REPOSITORY,
                start_new_session=True,
                text=True,
                stdout=log,
                stderr=log,
            )
        self._struck.wait()
        self.command.wait(PATIENCE)
        wait_until(lambda: not self.processes())

    def _plan(self) -> str:
        devices = {name: self._device(name) for name in (VICTIMS, "device-1")}
        jobs = [
            JobSpec(
                case=case,
                device=device,
                position=position,
                spec=self.engine.job(
                    case,
                    devices[device],
                    self.board.chaos if device == VICTIMS and self.board else str(self.chaos),
                    regressed=case == "regressed",
                    seconds=self.seconds if case.startswith("victim") else RUNNER_SECONDS,
                ),
            )
            for case, device, position in self.jobs
        ]
        return create_run(
            self.store, RunSpec(suite="chaos", engine="chaos", command="chaos", payload=self.payload), jobs
        )

    def _device(self, name: str) -> Device:
        link = self.board.link() if name == VICTIMS and self.board is not None else Link(kind="local")
        return Device(name=name, chip="c", model="m", tier="low", abis=("x86-64",), memory_mb=64, link=link)

    @property
    def device_folder(self) -> Path:
        """Where the victim's device keeps its things, as this host sees it."""
        return self.board.folder if self.board else self.state / "devices" / VICTIMS

    def _board(self) -> Board | None:
        if self.link == "ssh":
            return self._stack.enter_context(ssh_board(self.folder, self.chaos, self.small_disk))
        if self.link == "adb":
            assert self.phones is not None, "who makes a world with an adb device brings it"
            return self._stack.enter_context(adb_board(self.phones, self.state, self.small_disk))
        return None

    def _patch(self) -> None:
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("LOCKSTEP_STATE", str(self.state))
        patch.setenv("LOCKSTEP_CHAOS", str(self.chaos))
        patch.setenv("LOCKSTEP_CHAOS_LEASE", str(LEASE_SECONDS))
        patch.setenv("LOCKSTEP_CHAOS_LINK", self.link)
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        if self.silence is not None:
            patch.setenv("LOCKSTEP_CHAOS_SILENCE", str(self.silence))
        for variable in ("LOCKSTEP_BROKER_URL", "LOCKSTEP_STORE_URL"):
            patch.delenv(variable, raising=False)
        patch.setattr(dispatch, "LOST_MESSAGE_SECONDS", LOST_MESSAGE_SECONDS)

    def _wait_for_silence(self) -> None:
        wait_until(lambda: not self.processes())

    def _evidence(self) -> Evidence:
        jobs = jobs_of(self.store, self.run_id)
        with self.store.read() as session:
            rows = session.execute(text("SELECT job, before, after, attempts, result, at FROM witness ORDER BY rowid"))
            changes = tuple(Change(*row) for row in rows)
        kept = {VICTIMS: self.meeting / f"{VICTIMS}.log", "device-1": self.chaos / "device-1.log"}
        logs = {name: tuple(path.read_text().splitlines()) for name, path in kept.items() if path.exists()}
        tries = {job.id: attempts_of(self.store, job.id) for job in jobs}
        folder = self.device_folder
        rest = [*(folder / "jobs").glob("*"), *folder.rglob("*.part")]
        names = tuple(str(path.relative_to(folder)) for path in rest)
        return Evidence(jobs, tries, changes, logs, names, self.struck, self.engine.digest, self.engine.other)
