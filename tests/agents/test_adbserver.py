"""Our own adb server: real adb binary, real locks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import adbdaemon
from agents.adbdaemon import Endpoint, protocol_version, read_endpoint
from agents.adbserver import AdbServer, adb_binary, stop_server
from engine.contract.errors import DeviceUnavailable, MissingToolError
from tests.waiting import wait_until

pytestmark = pytest.mark.adb


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "adb"
    stop_server(tmp_path / "adb")


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text()


def test_it_listens_on_loopback_on_a_port_of_its_own_with_keys_of_its_own(folder: Path) -> None:
    with AdbServer(folder) as server:
        assert server.endpoint.port != 5037
        assert server.devices() == ()
        assert (folder / "home/.android/adbkey").stat().st_mode & 0o077 == 0
        assert folder.stat().st_mode & 0o777 == 0o700
        table = Path("/proc/net/tcp").read_text()
        listening = [line.split()[1] for line in table.splitlines() if line.split()[3] == "0A"]
        assert f"0100007F:{server.endpoint.port:04X}" in listening


def test_neither_the_users_server_nor_its_keys_are_touched(folder: Path, tmp_path: Path) -> None:
    with socket.socket() as users_own, pytest.MonkeyPatch.context() as patch:
        users_own.bind(("127.0.0.1", 0))
        users_own.listen()
        users_own.settimeout(0)
        port = str(users_own.getsockname()[1])
        patch.setenv("ANDROID_ADB_SERVER_PORT", port)
        patch.setenv("ADB_SERVER_SOCKET", f"tcp:localhost:{port}")
        patch.setenv("HOME", str(tmp_path / "user"))
        with AdbServer(folder) as server:
            server.devices()
            server.client().server_version()
        with pytest.raises(BlockingIOError):
            users_own.accept()
    assert not (tmp_path / "user").exists()


def test_two_users_at_once_share_one_server(folder: Path) -> None:
    found: list[Endpoint] = []
    barrier = threading.Barrier(4)

    def use() -> None:
        with AdbServer(folder) as server:
            found.append(server.endpoint)
            barrier.wait(20)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert len(set(found)) == 1


def test_it_does_not_end_under_its_users_and_ends_when_they_are_gone(folder: Path) -> None:
    with AdbServer(folder) as server:
        pid = server.endpoint.pid
        assert not stop_server(folder)
        assert protocol_version(server.endpoint.port) is not None
    assert stop_server(folder)
    wait_until(lambda: gone(pid), "the server outlived its supervisor")
    assert read_endpoint(folder) is None


def test_kill_server_from_an_adb_client_is_refused(folder: Path) -> None:
    with AdbServer(folder) as server:
        command = [adb_binary(), "-L", f"tcp:localhost:{server.endpoint.port}", "kill-server"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert server.devices() == ()


def test_an_idle_server_ends_by_itself_and_the_next_user_gets_a_new_one(folder: Path) -> None:
    with AdbServer(folder) as server:
        first = server.endpoint.pid
    past = time.time() - 2 * adbdaemon.IDLE_SECONDS
    with AdbServer(folder) as server:
        assert server.endpoint.pid == first, "kept for the next job"
    os.utime(folder / "users.lock", (past, past))
    os.kill(int((folder / "supervisor.lock").read_text()), signal.SIGTERM)
    wait_until(lambda: gone(first), "the server outlived its time")
    with AdbServer(folder) as server:
        assert server.endpoint.pid != first


def test_a_killed_server_is_started_again_and_its_users_can_tell(folder: Path) -> None:
    with AdbServer(folder) as server:
        assert server.replaced_by() is None
        os.kill(server.endpoint.pid, signal.SIGKILL)
        wait_until(
            lambda: (now := read_endpoint(folder)) is not None and now.pid != server.endpoint.pid,
            "no server was started again",
        )
        assert server.replaced_by() == f"{server.endpoint.version}, started anew"


def test_the_supervisor_takes_its_server_with_it(folder: Path) -> None:
    with AdbServer(folder) as server:
        os.kill(int((folder / "supervisor.lock").read_text()), signal.SIGKILL)
        wait_until(lambda: gone(server.endpoint.pid), "the server outlived its supervisor")
        assert server.replaced_by() == "none"
        with AdbServer(folder) as second:
            assert second.endpoint.pid != server.endpoint.pid


def other_adb(folder: Path) -> Path:
    """The same program under a version of its own, as another environment would bring it."""
    script = folder / "other-adb"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = version ] && {{ echo "version 1.0.39"; echo "Version 9.9"; exit; }}\n'
        f'exec "{adb_binary()}" "$@"\n'
    )
    script.chmod(0o755)
    return script


def test_a_server_of_another_version_is_replaced_only_when_nobody_uses_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AdbServer(folder) as server:
        ours = server.endpoint
        monkeypatch.setenv("ADBUTILS_ADB_PATH", str(other_adb(tmp_path)))
        with (
            pytest.raises(DeviceUnavailable, match=r"is version 1\.0\.41 .* and in use; this environment has 1\.0\.39"),
            AdbServer(folder),
        ):
            pass
        assert protocol_version(ours.port) is not None
    with AdbServer(folder) as server:
        assert server.endpoint.version == "1.0.39 (9.9)"
        assert gone(ours.pid)


def test_an_adb_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADBUTILS_ADB_PATH", "/nowhere/adb")
    with pytest.raises(MissingToolError, match="ADBUTILS_ADB_PATH names no program: /nowhere/adb"):
        adb_binary()


def test_an_adb_that_does_not_run_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADBUTILS_ADB_PATH", "/bin/true")
    with pytest.raises(DeviceUnavailable, match="does not tell its version"), AdbServer(folder):
        pass
