"""The night's schedule, and a real beat."""

import datetime
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.contract.errors import ConfigError
from farm.beat import Schedule, Starter, load_schedule
from farm.config import validate
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


@pytest.mark.services
def test_a_real_beat_starts_one_sweep_however_often_it_is_due(farm, until, tmp_path):
    started = tmp_path / "started"
    script = tmp_path / "sweep.sh"
    script.write_text(f'echo "$$ $*" >> {started}\nexec sleep 600\n')
    told = tmp_path / "told"
    with told.open("wb") as output:
        beat = subprocess.Popen([sys.executable, PROGRAM, "1", "/bin/sh", script], stdout=output, stderr=output)
    try:
        until(lambda: told.read_text().count("the one before still runs: left out") >= 2)
        lines = started.read_text().splitlines()
        os.kill(beat.pid, signal.SIGTERM)
        assert beat.wait(60) == 0, told.read_text()
    finally:
        beat.kill()
        beat.wait()
    assert len(lines) == 1, told.read_text()
    pid, words = lines[0].split()
    assert words == "hello"
    assert not Path(f"/proc/{pid}").exists(), "a sweep that runs ends with its beat"
    assert (farm.state / "logs" / "sweep-often.log").is_file()
