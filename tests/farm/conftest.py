import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from farm.jobs import JobSpec, RunSpec
from farm.session import FarmSession
from farm.store import Store, create_run
from tests.farm.postgres import running_postgres
from tests.waiting import wait_until

PROGRAMS = Path(__file__).parent / "programs"


def processes_of(state):
    """(pid, command) of every process whose environment or command (the server hides its environment) names it."""
    marker = f"LOCKSTEP_STATE={state}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if marker in (entry / "environ").read_bytes().split(b"\0") or str(state).encode() in command:
                found.append((int(entry.name), command.replace(b"\0", b" ").decode()))
        except OSError:
            continue
    return found


class Farm:
    """A state folder with a log of what its executors did."""

    def __init__(self, state):
        self.state = state
        self.log = state / "executed.jsonl"
        self.commands = []

    def session(self, executor="record", **options):
        return FarmSession(executor=f"farm_executors:{executor}", **options)

    def job(self, case, device, position=0, *, cost=1.0, timeout=600.0, **spec):
        spec = {"log": str(self.log), "case": case, "device": device} | spec
        return JobSpec(case=case, device=device, position=position, cost=cost, timeout=timeout, spec=spec)

    def plan(self, store, *jobs):
        return create_run(store, RunSpec(suite="smoke", engine="refrt", command="test"), jobs)

    def executed(self, what=None):
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if what in {None, line["what"]}]

    def processes(self, word=""):
        return [process for process in processes_of(self.state) if word in process[1]]

    def leaves_nothing(self):
        """Wait until no process of this farm runs; fails with what still does and what its log says."""
        try:
            wait_until(lambda: not self.processes())
        except AssertionError as error:
            logs = [path.read_text(errors="replace")[-3000:] for path in self.state.glob("logs/*.log")]
            raise AssertionError("\n".join([f"still running: {self.processes()}", *logs])) from error

    def drive(self, executor="record", jobs=1, devices=1, seconds=0.1):
        command = [sys.executable, PROGRAMS / "drive.py", f"farm_executors:{executor}", self.log]
        command += [str(jobs), str(devices), str(seconds)]
        self.commands.append(
            # what starts the tests may have told its children to ignore Ctrl-C; a terminal does not
            subprocess.Popen(
                ["env", "--default-signal=INT", *command],
                start_new_session=True,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return self.commands[-1]

    def worker(self, broker, executor="farm_executors:record", queue="lockstep", slots=1):
        """A user's own worker, which ends with no session; its log is ``state/worker.log``."""
        command = [sys.executable, "-m", "farm.worker", "--executor", executor, "--queue", queue]
        with (self.state / "worker.log").open("ab") as log:
            worker = subprocess.Popen(
                [*command, "--concurrency", str(slots)],
                env=os.environ | {"LOCKSTEP_BROKER_URL": broker},
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        self.commands.append(worker)
        return worker


@pytest.fixture
def farm(monkeypatch):
    """A farm in a folder of its own; nothing of it may be left running."""
    state = Path(tempfile.mkdtemp(prefix="lsfarm-"))  # short: socket paths are limited
    monkeypatch.setenv("LOCKSTEP_STATE", str(state))
    monkeypatch.setenv("PYTHONPATH", str(PROGRAMS))
    monkeypatch.delenv("LOCKSTEP_BROKER_URL", raising=False)
    monkeypatch.delenv("LOCKSTEP_STORE_URL", raising=False)
    farm = Farm(state)
    yield farm
    for command in farm.commands:
        command.kill()
        command.communicate()
    farm.leaves_nothing()
    shutil.rmtree(state)


class Clock:
    """Time that only moves when told to."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def postgres():
    """One real PostgreSQL for all tests that ask for it."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def fresh_url(request, tmp_path):
    """An empty database of each kind; what is written for one must hold on the other."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'new' / 'lockstep.db'}"
        return
    server = request.getfixturevalue("postgres")
    url = server.url(migrated=False)
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request, tmp_path):
    """A database of each kind with all tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'lockstep.db'}"
        return
    server = request.getfixturevalue("postgres")
    url = server.url()
    yield url
    server.drop(url)


@pytest.fixture
def store(store_url, clock):
    with Store(store_url, clock) as store:
        yield store


@pytest.fixture
def until():
    return wait_until
