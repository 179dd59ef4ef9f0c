"""The night's schedule, and a real beat."""

import contextlib
import datetime
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.contract.errors import ConfigError
from farm import driving as driving_module
from farm.beat import Schedule, Starter, load_schedule
from farm.config import validate
from farm.jobs import JobStatus
from farm.store import Store, jobs_of
from farm.store.runs import find_run, list_runs
from farm.sweeps import begin
from farm.tasks import make_app

PROGRAM = Path(__file__).parent / "programs" / "beat.py"
NIGHTLY = {"name": "nightly", "at": "02:30", "days": ["mon", "fri"], "arguments": ["--suite", "smoke"]}


def schedule(*entries, **more):
    return validate({"sweeps": list(entries), **more}, Schedule, "sweeps.yaml")


def test_a_schedule_is_read(tmp_path):
    path = tmp_path / "sweeps.yaml"
    path.write_text('timezone: Europe/Berlin\nsweeps:\n  - {name: nightly, at: "02:30", arguments: [--tier, low]}\n')
    found = load_schedule(path)
    assert (found.timezone, found.sweeps[0].at, found.sweeps[0].arguments) == (
        "Europe/Berlin",
        "02:30",
        ("--tier", "low"),
    )


@pytest.mark.parametrize(
    ("entry", "more", "words"),
    [
        ({"at": "24:00"}, {}, "should match pattern"),
        ({"at": "02:30", "every": 5}, {}, "exactly one of at, every"),
        ({"at": None}, {}, "exactly one of at, every"),
        ({"at": None, "every": 0}, {}, "greater than or equal to 1"),
        ({"at": None, "every": 5}, {}, "days go with at"),
        ({"name": "../x"}, {}, "should match pattern"),
        ({"dayz": []}, {}, "did you mean 'days'"),
        ({"days": ["monday"]}, {}, "'mon'"),
        ({}, {"timezone": "Mars/Base"}, "unknown timezone"),
    ],
)
def test_a_wrong_schedule_is_told(entry, more, words):
    with pytest.raises(ConfigError, match=words):
        schedule(NIGHTLY | entry, **more)


def test_names_are_unique():
    with pytest.raises(ConfigError, match="same name"):
        schedule(NIGHTLY, NIGHTLY)


def test_what_a_machine_slept_through_is_due_at_once_and_what_is_to_come_is_not():
    app = make_app("redis://127.0.0.1:1/0")
    due = schedule({"name": "n", "at": "02:30"}).moments()["n"].celery(app)
    now = datetime.datetime(2026, 11, 29, 8, 0, tzinfo=datetime.UTC)
    due.nowfun = lambda: now
    assert due.is_due(now - datetime.timedelta(days=1)).is_due
    later = due.is_due(now - datetime.timedelta(hours=2))
    assert not later.is_due
    assert later.next == pytest.approx(18.5 * 3600)


def test_an_entry_that_is_gone_starts_nothing(tmp_path, caplog):
    Starter(schedule(NIGHTLY), ["false"], tmp_path)("other")
    assert "not in the schedule any more" in caplog.text
    assert list(tmp_path.iterdir()) == []


class Beat:
    """A real beat in a process, and what it starts as one shell script."""

    def __init__(self, folder):
        self.script = folder / "sweep.sh"
        self.told = folder / "told"
        self._processes = []

    def start(self, seconds, script):
        """Begin every so many ``seconds``; returns the process."""
        self.script.write_text(script)
        words = ["env", "--default-signal=INT", sys.executable, PROGRAM, str(seconds), "/bin/sh", self.script]
        with self.told.open("ab") as output:
            self._processes.append(subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True))
        return self._processes[-1]

    def says(self):
        return self.told.read_text()

    def end(self):
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def beat(farm, tmp_path):
    beat = Beat(tmp_path)
    yield beat
    beat.end()


def sweep_script(farm):
    return f'exec {sys.executable} {PROGRAM.with_name("sweep.py")} {farm.log} 40 3 0.2 "$@"\n'


def first_sweep(store):
    """The sweep that was begun first, once one was."""
    return next((run for run in reversed(list_runs(store)) if run.sweep == run.id), None)


def done(store):
    """The content of each job of the first sweep that is done."""
    sweep = first_sweep(store)
    runs = list_runs(store, sweep=sweep.id) if sweep else []
    return sorted(job.content for run in runs for job in jobs_of(store, run.id) if job.status is JobStatus.DONE)


@pytest.mark.services
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_real_beat_starts_one_sweep_however_often_it_is_due(farm, until, tmp_path, beat, monkeypatch, number):
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", "redis://127.0.0.1:1/0")
    started = tmp_path / "started"
    process = beat.start(1, f'echo "$$ $*" >> {started}\nexec sleep 600\n')
    until(lambda: beat.says().count("the one before still runs: left out") >= 2)
    lines = started.read_text().splitlines()
    os.kill(process.pid, number)
    assert process.wait(60) == 0, beat.says()
    assert len(lines) == 1, beat.says()
    pid, words = lines[0].split(maxsplit=1)
    assert words == "--entry often"
    assert not Path(f"/proc/{pid}").exists(), "a sweep that runs ends with its beat"
    assert (farm.state / "logs" / "sweep-often.log").is_file()
    assert "the broker does not answer" in beat.says(), "told in the daytime, and the night is not lost for it"


@pytest.mark.services
def test_a_broker_that_restarts_ends_no_sweep(farm, until, beat):
    with Store() as store:
        beat.start(1, sweep_script(farm))
        until(lambda: len(done(store)) >= 2)
        (broker,) = [pid for pid, command in farm.processes("valkey-server")]
        os.kill(broker, signal.SIGKILL)
        until(lambda: "sweep=often ended with exit code" in beat.says())
        assert "sweep=often ended with exit code 0" in beat.says(), beat.says()
        assert first_sweep(store).status == "done"
        assert done(store) == sorted(f"c{i} on d{i % 3}" for i in range(40)), "each content once"


@pytest.mark.services
def test_a_night_that_a_crash_of_the_machine_cut_off_is_gone_on_with(farm, until, beat):
    with Store() as store:
        process = beat.start(1, sweep_script(farm))
        until(lambda: len(done(store)) >= 3)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        sweep = first_sweep(store)
        until(lambda: not farm.processes("worker"))
        beat.start(86400, sweep_script(farm))
        until(lambda: find_run(store, sweep.id).status == "done")
        assert f"was cut off this night: going on with {sweep.id}" in beat.says()
        assert done(store) == sorted(f"c{i} on d{i % 3}" for i in range(40)), "each content once"


@pytest.mark.services
def test_a_sweep_that_dies_alone_is_gone_on_with(farm, until, beat):
    with Store() as store:
        sweep = begin(store, "lab2/b", "c", {"suites": ["s"], "engines": ["e"]}, entry="often")
        with driving_module.driving(store, sweep):
            pass
        beat.start(86400, "kill -KILL $$\n")
        until(lambda: beat.says().count("sweep=often ended with exit code -9") >= 2)


@pytest.mark.services
def test_what_is_driven_elsewhere_is_left_to_it_until_it_is_left(farm, until, beat, monkeypatch):
    monkeypatch.setattr(driving_module, "BEAT_SECONDS", 0.1)
    with Store() as store:
        sweep = begin(store, "lab2/b", "c", {"suites": ["s"], "engines": ["e"]}, entry="often")
        beat.start(86400, "exit 9\n")
        with driving_module.driving(store, sweep):
            until(lambda: beat.says().count("is unfinished, but driven from lab2") >= 2)
            with driving_module.alone(farm.state):
                until(lambda: "is unfinished, but a sweep is running already" in beat.says())
            assert "exit code 9" not in beat.says()
        until(lambda: "sweep=often ended with exit code 9" in beat.says())
