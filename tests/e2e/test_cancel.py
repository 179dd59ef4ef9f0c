"""A gate whose runner hangs, cancelled from another terminal: the program on the device ends within seconds."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.sshd import running_sshd
from tests.e2e.bench import HOST, LOCKSTEP, REPOSITORY, Bench
from tests.e2e.test_ssh_device import device_behind

pytestmark = [pytest.mark.e2e, pytest.mark.services]
SECONDS = 15.0


def wait_for(condition: Callable[[], Any], words: str, seconds: float) -> Any:
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, words
        time.sleep(0.05)
    return found


def cancelled_gate(bench: Bench, device: dict[str, Any]) -> None:
    mark = bench.folder / "pid"
    engine = bench.engine("hanging", f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 600")
    words = ["gate", "--engine", engine, "--devices", bench.fleet(device), "--case", "vad-noise"]
    gate = subprocess.Popen(
        [*LOCKSTEP, *words, "--out", str(bench.folder / "out")],
        cwd=REPOSITORY,
        env={**os.environ, "LOCKSTEP_STATE": str(bench.folder / "state")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(mark.exists, "the runner never started", 120)
        pid = int(mark.read_text())
        done = bench.lockstep("runs", "cancel", "latest", "--by", "ann", "--reason", "phone needed")
        assert done.exit_code == 0, done.text
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the program still runs on the device", SECONDS)
        _, stderr = gate.communicate(timeout=60)
    finally:
        gate.kill()
        gate.wait()
    assert gate.returncode == 3
    assert "was cancelled by ann: phone needed" in stderr
    assert "Traceback" not in stderr
    shown = bench.lockstep("runs", "show").text
    assert "cancelled by ann" in shown
    assert "report    none was written" in shown


def test_a_local_device(bench: Bench) -> None:
    cancelled_gate(bench, HOST)
    jobs = bench.folder / "state" / "devices" / "host" / "jobs"
    assert list(jobs.iterdir()) == [], "its worker ended the program and cleaned up; nobody had to kill the worker"


@pytest.mark.ssh
def test_a_device_behind_ssh(bench: Bench, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd") as daemon:
        cancelled_gate(bench, device_behind(daemon, tmp_path / "device"))
        assert list((tmp_path / "device" / "jobs").iterdir()) == [], "the folder of the call is gone as well"
