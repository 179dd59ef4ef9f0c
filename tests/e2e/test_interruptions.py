"""A gate that is stopped in the middle leaves nothing running: no broker, no worker, no runner."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.bench import HOST, LOCKSTEP, REPOSITORY, Bench
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.services]


def processes_of(state: Path) -> list[str]:
    """Command lines of all processes that work for this state folder (it is in their environment)."""
    found = []
    mark = f"LOCKSTEP_STATE={state}\0".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if (
                mark in (entry / "environ").read_bytes() + b"\0"
                or str(state).encode() in (entry / "cmdline").read_bytes()
            ):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_running(bench: Bench, how: signal.Signals) -> None:
    mark, state = bench.folder / "running", bench.folder / "state"
    engine = bench.engine("hanging", f"touch {mark}; exec sleep 600")
    words = [
        "gate",
        "--engine",
        engine,
        "--devices",
        bench.fleet(HOST),
        "--case",
        "vad-noise",
        "--out",
        str(bench.folder / "out"),
    ]
    gate = subprocess.Popen(
        # what starts the tests may have told its children to ignore Ctrl-C; a terminal does not
        ["env", "--default-signal=INT", *LOCKSTEP, *words],
        cwd=REPOSITORY,
        env={**os.environ, "LOCKSTEP_STATE": str(state)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(mark.exists, "the runner never started")
        gate.send_signal(how)
        _, stderr = gate.communicate(timeout=60)
    finally:
        gate.kill()
    assert "Traceback" not in stderr
    assert gate.returncode != 0
    wait_until(lambda: processes_of(state) == [], f"still running: {processes_of(state)}")
    assert not (bench.folder / "out" / "latest").exists(), "no verdict of a run that was stopped"


def test_the_next_gate_finds_the_device_free(bench: Bench) -> None:
    mark = bench.folder / "running"
    fleet = bench.fleet(HOST)
    engine = bench.engine("hanging", f"touch {mark}; exec sleep 600")
    words = ["gate", "--engine", engine, "--devices", fleet, "--case", "vad-noise", "--out", str(bench.folder / "out")]
    environment = {**os.environ, "LOCKSTEP_STATE": str(bench.folder / "state")}
    gate = subprocess.Popen(
        [*LOCKSTEP, *words], cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(mark.exists, "the runner never started")
    gate.kill()
    gate.wait()
    after = bench.gate("--engine", "ort-example", "--devices", fleet, "--case", "vad-noise")
    assert after.case("vad-noise", "host")["status"] == "pass"
