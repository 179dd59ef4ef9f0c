"""Android's log and tombstone of a crash, from a real adbd."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.adbd import AdbDevice
from tests.agents.adblines import agent_of
from tests.waiting import wait_until

pytestmark = pytest.mark.adb

#: What Android writes to the log's buffer for crashes of another program and of this one, whose stack has frames 0 to
#: $1, and then 1000 lines of somebody else.
CRASH = r"""
now=$(date '+%m-%d %H:%M:%S')
{
    echo "$now.000 66 66 F DEBUG   : *** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***"
    echo "$now.000 66 66 F DEBUG   : pid: 66, tid: 66, name: other  >>> other <<<"
    echo "$now.100 77 77 F libc    : Fatal signal 11 (SIGSEGV), code 1 in tid 77 (engine)"
    echo "$now.200 78 78 F DEBUG   : *** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***"
    echo "$now.200 78 78 F DEBUG   : pid: 77, tid: 77, name: engine  >>> ./engine <<<"
    seq 0 "$1" | sed "s/.*/$now.200 78 78 F DEBUG   :       #& pc 00001234  libengine.so (conv+&)/"
} >>/data/emulation/logcat-crash.txt
seq 1000 | sed "s/.*/$now.900 9 9 I chatty  : line &/" >>/data/emulation/logcat.txt
kill -SEGV $$
"""


@pytest.fixture
def logs(device: AdbDevice) -> Iterator[Path]:
    folder = device.root / "data/emulation"
    before = {path: path.read_text() for path in folder.glob("logcat*.txt")}
    yield folder
    for path, text in before.items():
        path.write_text(text)


@pytest.mark.parametrize("frames", ["9", "255"])
def test_a_chatty_phone_does_not_push_the_backtrace_out(device: AdbDevice, logs: Path, frames: str) -> None:
    with agent_of(device.serial) as agent:
        agent._remove("jobs/crash")
        agent.run(["/bin/sh", "-c", CRASH, "crash", frames], "jobs/crash", {}, 20)
        log = agent.crash_evidence()["logcat"].splitlines()
    assert "*** *** ***" in log[0]
    assert "name: engine" in log[1]
    assert "#0 pc 00001234  libengine.so (conv+0)" in log[2]
    assert "line 1000" in log[-1]
    assert not [line for line in log if "other" in line]
    assert len("\n".join(log)) <= 2 * 8000 + 2


def test_of_a_crash_that_nobody_could_dump_its_signal_is_kept(device: AdbDevice, logs: Path) -> None:
    with agent_of(device.serial) as agent:
        agent._remove("jobs/crash")
        agent.run(["/bin/sh", "-c", CRASH.replace("DEBUG ", "").replace("***", ""), "crash", "0"], "jobs/crash", {}, 20)
        assert "Fatal signal 11" in agent.crash_evidence()["logcat"].splitlines()[0]


def test_of_a_crash_only_what_is_newer_than_the_program_is_kept(device: AdbDevice) -> None:
    tombstones = device.root / "data/tombstones"
    (tombstones / "tombstone_00").write_text("an older crash")
    (tombstones / "tombstone_00.pb").write_bytes(b"\0\1\2")
    with agent_of(device.serial) as agent:
        agent._remove("jobs/crash")
        agent.run(["/bin/sh", "-c", "log -t engine \x1b[31mred; kill -SEGV $$"], "jobs/crash", {}, 20)
        kept = agent.crash_evidence()
        assert "engine: [31mred" in kept["logcat"]
        assert "emulated device started" not in kept["logcat"]
        assert kept["tombstone"] == "none since the program began"
        wait_until(lambda: time.time() > (device.root / "data/local/tmp/lockstep/jobs/crash").stat().st_mtime, "time")
        (tombstones / "tombstone_01").write_text("signal 11 (SIGSEGV)" + "x" * 100_000)
        kept = agent.crash_evidence()
        assert kept["tombstone"].startswith("signal 11 (SIGSEGV)")
        assert len(kept["tombstone"]) == 8000
        tombstones.chmod(0)
        try:
            assert "cannot be read by this user, as is usual" in agent.crash_evidence()["tombstone"]
        finally:
            tombstones.chmod(0o771)
        agent._link.close()
        assert agent.crash_evidence()["logcat"].startswith("not collected: ")
