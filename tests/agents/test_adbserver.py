"""Our own adb server: real adb binary, real locks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
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


def ports_of(pid: int) -> list[str]:
    """Addresses in hexadecimal at which a process listens for TCP connections."""
    links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    table = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [line[1] for line in table if line[3] == "0A" and f"socket:[{line[9]}]" in links]


def test_it_listens_on_a_socket_in_a_folder_of_its_user_with_keys_of_its_own() -> None:
    with tempfile.TemporaryDirectory(prefix="ls-") as short, AdbServer(Path(short) / "adb") as server:
        assert server.devices() == ()
        assert ports_of(server.endpoint.pid) == []
        assert Path(server.endpoint.path).parent == server.folder
        assert (server.folder / "home/.android/adbkey").stat().st_mode & 0o077 == 0
        assert server.folder.stat().st_mode & 0o777 == 0o700
        path = server.endpoint.path
        server.__exit__()
        assert stop_server(server.folder)
        assert not Path(path).exists()


def test_where_the_path_of_a_socket_is_too_long_it_listens_on_a_loopback_port(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 100)
    with AdbServer(folder) as server:
        assert server.devices() == ()
        assert server.endpoint.path == ""
        assert ports_of(server.endpoint.pid) == [f"0100007F:{server.endpoint.port:04X}"]
    assert stop_server(folder)


def test_what_a_killed_supervisor_left_is_cleared_away() -> None:
    with tempfile.TemporaryDirectory(prefix="ls-") as short:
        folder = Path(short) / "adb"
        with AdbServer(folder) as server:
            left = server.endpoint
            os.kill(int((folder / "supervisor.lock").read_text()), signal.SIGKILL)
            wait_until(lambda: gone(left.pid), "the server outlived its supervisor")
        with AdbServer(folder) as server:
            assert server.endpoint.path != left.path
            assert [str(path) for path in folder.glob("*.sock")] == [server.endpoint.path]
        assert stop_server(folder)


def test_more_than_may_wait_at_once_are_served_all_the_same(folder: Path) -> None:
    told: list[str | None] = []
    with AdbServer(folder) as server:
        threads = [threading.Thread(target=lambda: told.append(protocol_version(server.endpoint))) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(told) == 64
    assert None not in told


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
        assert protocol_version(server.endpoint) is not None
    assert stop_server(folder)
    wait_until(lambda: gone(pid), "the server outlived its supervisor")
    assert read_endpoint(folder) is None


def test_kill_server_from_an_adb_client_is_refused(folder: Path) -> None:
    with AdbServer(folder) as server:
        command = [adb_binary(), "-L", server.endpoint.address, "kill-server"]
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
        assert protocol_version(ours) is not None
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
