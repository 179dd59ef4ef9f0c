"""A whole gate on a device behind a real ssh daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.toolchain import group_tree
from tests.agents.sshd import Sshd, running_sshd
from tests.e2e.bench import HOST, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.ssh, pytest.mark.services, pytest.mark.timeout(300)]

# Kills the sshd of the test (recognised by its program, so no other) that the runner itself runs under.
TAKES_THE_DAEMON_WITH_IT = """
pid=$$; daemons=
while [ "$pid" -gt 1 ]; do
    pid=$(sed 's/.*) . \\([0-9]*\\) .*/\\1/' "/proc/$pid/stat")
    [ "$(readlink "/proc/$pid/exe")" = "%s" ] && daemons="$daemons $pid"
done
kill -KILL $daemons
sleep 600
"""


def device_behind(daemon: Sshd, folder: Path) -> dict[str, Any]:
    where = daemon.address
    link = {
        "kind": "ssh",
        "host": where.host,
        "port": where.port,
        "user": where.user,
        "key": str(where.key),
        "known_hosts": str(where.known_hosts),
        "folder": str(folder),
    }
    return {**HOST, "name": "board", "link": link}


def test_a_gate_over_ssh_passes_and_a_second_one_deploys_nothing(bench: Bench, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd") as daemon:
        fleet = bench.fleet(device_behind(daemon, tmp_path / "device"))
        for _ in range(2):
            before = {path: path.stat().st_ino for path in (tmp_path / "device").rglob("*") if path.is_file()}
            done = bench.gate("--devices", fleet, "--case", "vad-noise")
            entry = done.case("vad-noise", "board")
            assert entry["status"] == "pass", done.text
            assert "29 compared layers equal canonical bit for bit" in entry["reason"]
    (device,) = done.verdict["devices"]
    assert (device["link"], device["emulated"], device["tested"]) == ("ssh", False, True)
    assert device["fingerprint"]["kernel"] != "unknown"
    after = {path: path.stat().st_ino for path in (tmp_path / "device").rglob("*") if path.is_file()}
    assert after == before, "the same blobs and bundle, marked as used; nothing of a call is left"


def test_a_device_with_a_changed_host_key_is_not_tested_and_the_gate_says_why(bench: Bench, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd") as daemon:
        daemon.change_host_key()
        fleet = bench.fleet(device_behind(daemon, tmp_path / "device"))
        done = bench.gate("--devices", fleet, "--case", "vad-noise")
    assert done.exit_code == 3
    assert "host key changed" in done.text
    assert not (tmp_path / "device").exists()


def test_a_device_that_vanishes_while_the_runner_runs_is_not_the_engines_fault(bench: Bench, tmp_path: Path) -> None:
    program = (group_tree("ssh") / "usr/sbin/sshd").resolve()
    engine = bench.engine("fatal", TAKES_THE_DAEMON_WITH_IT % program)
    with running_sshd(tmp_path / "sshd") as daemon:
        fleet = bench.fleet(device_behind(daemon, tmp_path / "device"))
        done = bench.gate("--engine", engine, "--devices", fleet, "--case", "vad-noise")
    assert done.exit_code == 3
    assert "board: " in done.text
    assert "the ssh connection to 127.0.0.1" in done.text or "no ssh at 127.0.0.1" in done.text
    assert "crashed" not in done.text
