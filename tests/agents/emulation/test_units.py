"""Emulated devices, spoken to over the real protocol."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import adbutils
import pytest

from engine.contract.errors import UsageError
from tests.agents.adbd import AdbDevice, running_adbd

pytestmark = pytest.mark.adb


class Adb:
    """A private adb server on a port of its own, a child of this process."""

    def __init__(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self._environment = {**os.environ, "ANDROID_ADB_SERVER_PORT": str(port)}
        self.server = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", adbutils.adb_path(), "-P", str(port), "nodaemon", "server"],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait(lambda: _accepts(port), "the adb server listens")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [adbutils.adb_path(), *arguments]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=False)

    def shell(self, device: AdbDevice, script: str) -> str:
        done = self("-s", device.serial, "shell", script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(self, device: AdbDevice) -> str:
        listing = dict(line.split("\t") for line in self("devices").stdout.splitlines() if "\t" in line)
        return listing.get(device.serial, "unknown")


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def wait(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, f"in vain: {what}"
        os.sched_yield()


@pytest.fixture(scope="module")
def adb() -> Iterator[Adb]:
    made = Adb()
    yield made
    made.server.kill()
    made.server.wait()


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory, adb: Adb) -> Iterator[AdbDevice]:
    with running_adbd(tmp_path_factory.mktemp("emulation") / "phone") as made:
        adb("connect", made.serial)
        wait(lambda: adb.state(made) == "device", "connected")
        yield made


def test_exit_codes_and_both_streams_come_back_apart(adb: Adb, device: AdbDevice) -> None:
    done = adb("-s", device.serial, "shell", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


def test_the_shell_is_that_of_android_and_not_of_root(adb: Adb, device: AdbDevice) -> None:
    assert adb.shell(device, "id -un; echo ${KSH_VERSION%% *}; readlink /system/bin/ls") == (
        "shell\n@(#)MIRBSD\n../../usr/bin/toybox\n"
    )


def test_a_cut_line_is_offline_until_it_is_mended(adb: Adb, device: AdbDevice) -> None:
    device.cut()
    wait(lambda: adb.state(device) != "device", "offline")
    device.mend()
    wait(lambda: "connected" in adb("connect", device.serial).stdout and adb.state(device) == "device", "back")
    assert adb.shell(device, "echo back") == "back\n"


def test_the_host_sees_the_devices_files_and_may_change_them(adb: Adb, device: AdbDevice) -> None:
    adb.shell(device, "echo seen > /data/local/tmp/x")
    assert (device.root / "data/local/tmp/x").read_text() == "seen\n"
    (device.root / "sys/class/thermal/thermal_zone0/temp").write_text("81000\n")
    assert adb.shell(device, "cat /sys/class/thermal/thermal_zone0/temp") == "81000\n"


def test_a_silent_line_stays_connected_and_lets_nothing_through(device: AdbDevice) -> None:
    with socket.create_connection(("127.0.0.1", device.port), 30) as line:
        device.cut(silent=True)
        line.sendall(b"CNXN garbage that adbd would hang up on")
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            line.recv(1)
        assert device.status().line == "silent"
        device.mend()
    assert device.status().line == "open"


def test_a_killed_daemon_stays_away_until_it_is_restarted(adb: Adb, device: AdbDevice) -> None:
    device.kill()
    wait(lambda: adb.state(device) != "device", "the daemon is gone")
    assert "daemon" not in adb("connect", device.serial).stdout
    device.restart()
    wait(lambda: "connected" in adb("connect", device.serial).stdout and adb.state(device) == "device", "back")
    assert adb.shell(device, "echo back") == "back\n"


def test_a_reboot_ends_every_process_and_keeps_the_files(adb: Adb, device: AdbDevice) -> None:
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = adb.shell(device, f"touch /data/local/tmp/kept; setsid sleep 600 >/dev/null 2>&1 & {boot_id}")
    device.reboot()
    wait(lambda: "connected" in adb("connect", device.serial).stdout and adb.state(device) == "device", "back")
    assert adb.shell(device, boot_id) != before
    assert adb.shell(device, "ls /data/local/tmp/kept; pgrep sleep || echo none") == "/data/local/tmp/kept\nnone\n"


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with (
        pytest.raises(UsageError, match="holds something else than an emulated device"),
        running_adbd(tmp_path),
    ):
        pass
    assert (tmp_path / "thesis.txt").exists()


def test_nothing_remains_of_a_device_that_went_down(tmp_path: Path) -> None:
    with running_adbd(tmp_path / "phone") as made:
        first = made.status().init
        assert made.running
    assert not made.running
    assert not Path(f"/proc/{first}").exists()
    assert not (tmp_path / "phone").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
