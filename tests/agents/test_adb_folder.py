"""Where programs run on a device behind a real adbd: its folder is found, and is nobody else's."""

from __future__ import annotations

import os

import pytest

from agents import adb
from engine.contract.errors import DeviceUnavailable
from tests.agents.adbd import AdbDevice
from tests.agents.adblines import agent_of

pytestmark = pytest.mark.adb


def test_shared_storage_that_runs_nothing_is_passed_over(device: AdbDevice) -> None:
    with agent_of(device.serial, folder="/sdcard/lockstep") as agent:
        assert agent.home == "/data/local/tmp/lockstep"
        agent.preflight()


def test_a_device_on_which_nothing_may_run_is_told_as_that(device: AdbDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adb, "CANDIDATES", ("/proc/lockstep",))
    with (
        pytest.raises(DeviceUnavailable, match=r"/sdcard/lockstep \(not executable here\); /proc/lockstep \("),
        agent_of(device.serial, folder="/sdcard/lockstep"),
    ):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of another user")
def test_a_folder_that_no_link_named_must_belong_to_the_user_of_adbd(
    device: AdbDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = device.root / "tmp/theirs"  # by root; the daemon's user is another
    theirs.mkdir(parents=True)
    theirs.chmod(0o777)
    monkeypatch.setattr(adb, "CANDIDATES", ("/tmp/theirs", adb.DEFAULT_FOLDER))
    with agent_of(device.serial) as agent:
        assert agent.home == adb.DEFAULT_FOLDER
    assert (device.root / adb.DEFAULT_FOLDER[1:]).stat().st_mode & 0o777 == 0o700
    with agent_of(device.serial, folder="/tmp/theirs") as agent:
        assert agent.home == "/tmp/theirs"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of another user")
def test_where_adbd_was_root_before_its_shell_user_has_a_folder_of_its_own(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        assert agent.home == adb.DEFAULT_FOLDER
    made = device.root / adb.DEFAULT_FOLDER[1:]
    before = made.stat()
    os.chown(made, device.root.stat().st_uid, device.root.stat().st_gid)
    made.chmod(0o700)
    try:
        for _ in range(2):
            with agent_of(device.serial) as agent:
                assert agent.home == "/data/local/tmp/lockstep-2"
                agent.preflight()
    finally:
        os.chown(made, before.st_uid, before.st_gid)
    with agent_of(device.serial) as agent:
        assert agent.home == adb.DEFAULT_FOLDER
