"""The adb agent when its line, a transfer or the adb server dies, against a real adbd."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from agents import adblink, adbpush, adbreach, adbshell, posix
from agents.adb import AdbAgent
from engine.contract.errors import DeviceUnavailable, TransferError
from tests.agents.adbd import AdbDevice
from tests.agents.adblines import agent_of, ended, left_over, listener, proxy_to
from tests.agents.bundles import blob_of
from tests.waiting import wait_until

pytestmark = pytest.mark.adb


# -- the link dies ---------------------------------------------------------------------------------------


def running(agent: AdbAgent) -> tuple[threading.Thread, list[BaseException]]:
    """A program that sleeps on the device, and what its caller gets."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            agent.run(["/bin/sh", "-c", "sleep 600 & echo $! > pid; wait"], "jobs/one", {}, 60)
        except DeviceUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, errors


def child_of(device: AdbDevice) -> int:
    mark = device.root / "data/local/tmp/lockstep/jobs/one/pid"
    wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"), "the program never started")
    pid = int(mark.read_text())
    mark.unlink()
    return pid


@pytest.mark.parametrize("fault", ["cut", "restart"])
def test_a_line_that_is_cut_is_told_at_once_and_leaves_no_program_behind(device: AdbDevice, fault: str) -> None:
    with agent_of(device.serial) as agent:
        thread, errors = running(agent)
        child = child_of(device)
        getattr(device, fault)()
        thread.join(60)
        assert not thread.is_alive()
        assert f"phone: the adb link {device.serial} was lost" in str(errors[0])
        wait_until(lambda: ended(device, child), "the program outlived its link")
        wait_until(lambda: not left_over(device), "a helper of the program outlived its link")
        device.mend()
        with pytest.raises(DeviceUnavailable, match="was lost"):
            agent.preflight()
    with agent_of(device.serial) as agent:
        agent.preflight()


def test_a_caller_that_hangs_up_leaves_no_program_behind(device: AdbDevice) -> None:
    agent = agent_of(device.serial)
    with agent:
        thread, _ = running(agent)
        child = child_of(device)
        agent.interrupted.set()
    thread.join(60)
    wait_until(lambda: ended(device, child), "the program outlived its caller")


def test_a_device_that_left_for_a_moment_between_two_calls_is_noticed(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        agent.preflight()
        device.cut()
        watch = agent._link._watch
        wait_until(lambda: watch is not None and watch.fault(), "nobody noticed")
        device.mend()
        with pytest.raises(DeviceUnavailable, match=r"was lost: it was (offline|lost) for a moment"):
            agent.preflight()


def test_a_transfer_that_stops_in_the_middle_ends_in_time_and_has_no_final_name(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = blob_of(tmp_path, os.urandom(1 << 20))
    with proxy_to(device) as line, agent_of(line.serial) as agent:
        agent.preflight()
        monkeypatch.setattr(posix, "CONTROL_SECONDS", 1.0)
        monkeypatch.setattr(posix, "SLOWEST_LINK", 10**9)
        monkeypatch.setattr(posix, "SLOWEST_STORAGE", 10**9)
        monkeypatch.setattr(adbpush, "SILENCE_SECONDS", 1.0)
        monkeypatch.setattr(adbshell, "GRACE_SECONDS", 0.5)
        line.left = int(0.6 * blob.size)
        with pytest.raises(DeviceUnavailable, match=r"was lost: no answer in time; now it is device in the list"):
            agent.deploy([blob], lambda: None)
        assert not agent.still_answers()
    assert not (device.root / "data/local/tmp/lockstep/blobs" / blob.sha256).exists()


def test_a_download_that_stops_in_the_middle_ends_in_time(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = blob_of(tmp_path, os.urandom(1 << 20))
    with proxy_to(device) as line, agent_of(line.serial) as agent:
        agent.deploy([blob], lambda: None)
        monkeypatch.setattr(adbpush, "SILENCE_SECONDS", 1.0)
        pull = adblink.adbsync.pull

        def stop_then_pull(*arguments: object) -> bytes:
            line.left = 0
            return pull(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(adblink.adbsync, "pull", stop_then_pull)
        with pytest.raises(DeviceUnavailable, match="no answer in time"):
            agent.fetch(f"blobs/{blob.sha256}", blob.size)


def test_a_device_that_is_listed_and_never_answers_is_told_in_time(
    device: AdbDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adbreach, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(adbreach, "CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(adbreach, "SETTLE_SECONDS", 1.0)
    monkeypatch.setattr(adblink, "OPEN_SECONDS", 1.0)
    monkeypatch.setattr(adbshell, "GRACE_SECONDS", 0.5)
    with proxy_to(device) as line:
        with agent_of(line.serial) as agent:
            line.left = 0
            with pytest.raises(
                DeviceUnavailable, match=r"was lost: .*now it is device in the list, which may be stale"
            ):
                agent._script("echo hi", seconds=1.0)
        with pytest.raises(DeviceUnavailable, match=rf"{line.serial} is|answers no command"), agent_of(line.serial):
            pass


def test_a_file_that_is_refused_is_told_with_the_devices_reason(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        (device.root / "data/local/tmp/lockstep/jobs/file").write_text("")
        with pytest.raises(TransferError, match=r"phone: cannot write .*[Nn]ot a directory") as caught:
            agent.send_text("x", "jobs/file/below")
        assert "is there room" in caught.value.hint
        agent.preflight()


# -- the server dies -------------------------------------------------------------------------------------


def test_a_server_killed_in_the_middle_voids_the_attempt_and_names_both_versions(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        ours = agent._link.server.endpoint
        thread, errors = running(agent)
        child_of(device)
        os.kill(ours.pid, signal.SIGKILL)
        thread.join(60)
        assert not thread.is_alive()
        words = str(errors[0])
        assert f"the adb server was replaced in the middle: {ours.version} before" in words
        assert "nothing of this attempt is kept" in words
        with pytest.raises(DeviceUnavailable, match="was replaced in the middle"):  # never half of another server's
            agent.fetch("jobs/one/pid", 100)
    with agent_of(device.serial) as agent:
        assert agent._link.server.endpoint.pid != ours.pid
        agent.preflight()


def test_another_version_in_the_place_of_ours_is_named(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        server = agent._link.server
        ours = server.endpoint
        os.kill(int((server.folder / "supervisor.lock").read_text()), signal.SIGKILL)
        # a process that ends has no program any more a while before it lets go of its sockets: ask for the socket
        with wait_until(lambda: listener(ours), "the server outlived its supervisor") as other:

            def answer() -> None:
                with suppress(OSError):
                    while True:
                        connection, _ = other.accept()
                        with connection:
                            connection.recv(100)
                            connection.sendall(b"OKAY00040020")

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            with pytest.raises(DeviceUnavailable, match=r"1\.0\.41 \(.*\) before, 1\.0\.32 now"):
                agent.preflight()
            with agent_of(device.serial, name="phone") as next_one:  # the stranger is not taken for ours
                assert next_one._link.server.endpoint.address != ours.address
            other.shutdown(socket.SHUT_RDWR)
            thread.join(60)
