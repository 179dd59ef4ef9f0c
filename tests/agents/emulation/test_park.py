"""Bringing up, listing and ending emulated devices as the command line does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.emulation.park import Counts, Park
from engine.contract.errors import UsageError

ONE_OF_EACH: Counts = {("adb", "x86-64"): 1, ("ssh", "x86-64"): 1}
pytestmark = [pytest.mark.adb, pytest.mark.ssh]


@pytest.fixture
def park(tmp_path: Path) -> Iterator[Park]:
    made = Park(tmp_path / ("a folder, with: odd characters" + "x" * 100))
    yield made
    made.down()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def wait(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, f"in vain: {what}"
        os.sched_yield()


def test_up_twice_keeps_what_runs_and_down_ends_all(park: Park) -> None:
    said: list[str] = []
    assert park.up(ONE_OF_EACH, progress=said.append) == []
    before = park.units()
    assert [unit.name for unit in before] == ["adb-x86-64-1", "ssh-x86-64-1"]
    assert all(unit.alive for unit in before)
    assert park.up(ONE_OF_EACH, progress=said.append) == []
    assert park.units() == before
    assert said[-1] == f"ssh-x86-64-1: runs already at {before[1].serial}"
    assert park.down() == ["adb-x86-64-1", "ssh-x86-64-1"]
    assert park.units() == []
    assert not any(unit.running for unit in before)
    assert [path.name for path in park.folder.iterdir()] == ["lock"]


def test_a_device_ends_with_its_supervisor_and_comes_back_at_its_address(park: Park) -> None:
    park.up({("adb", "x86-64"): 1})
    (unit,) = park.units()
    inside = unit.status().init
    os.kill(unit.pid, signal.SIGKILL)
    wait(lambda: not Path(f"/proc/{inside}/root/proc").exists(), "the device ends with its supervisor")
    assert not unit.alive
    park.up({("adb", "x86-64"): 1})
    (again,) = park.units()
    assert again.alive
    assert (again.port, again.pid == unit.pid) == (unit.port, False)


def test_down_touches_no_process_that_only_has_the_number_of_one(park: Park) -> None:
    park.up({("adb", "x86-64"): 1})
    (unit,) = park.units()
    os.kill(unit.pid, signal.SIGKILL)
    wait(lambda: not unit.running, "dead")
    with subprocess.Popen(["sleep", "600"]) as stranger:
        record = unit.folder / "unit.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "pid": stranger.pid}))
        assert park.down() == ["adb-x86-64-1"]
        assert stranger.poll() is None
        stranger.kill()


def test_a_name_that_is_not_there_is_told_with_the_nearest(park: Park) -> None:
    park.up({("adb", "x86-64"): 1})
    with pytest.raises(UsageError, match=r"no emulated device 'adb-x86-64-2': did you mean adb-x86-64-1\?"):
        park.down(["adb-x86-64-2"])
    assert park.units()[0].alive


def test_a_bounded_device_is_full_when_it_is_full(tmp_path: Path) -> None:
    from tests.agents.sshdevice import running_ssh_device  # noqa: PLC0415

    with running_ssh_device(tmp_path / "board", data_mb=1) as board:
        home = board.root / "home/lockstep"
        with pytest.raises(OSError, match="No space left"):
            (home / "big").write_bytes(b"x" * 2_000_000)
