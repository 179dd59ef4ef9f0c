"""Fixed-performance mode is on while programs run, and comes back on every way out; against a real adbd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import adb
from agents.adbperformance import RECORD
from agents.base import AgentSpec
from tests.agents.adbd import AdbDevice
from tests.agents.adblines import agent_of

pytestmark = pytest.mark.adb


class Mode:
    """The mode of one device, and what Lockstep recorded of it."""

    def __init__(self, device: AdbDevice) -> None:
        self._device = device

    @property
    def record(self) -> Path:
        return self._device.root / "data/local/tmp/lockstep" / RECORD

    def set(self, told: str) -> None:
        (self._device.root / "data/emulation/fixed-performance.txt").write_text(f"{told}\n")

    def now(self) -> str:
        return (self._device.root / "data/emulation/fixed-performance.txt").read_text().strip()


@pytest.fixture
def mode(device: AdbDevice) -> Iterator[Mode]:
    yield (found := Mode(device))
    found.set("false")
    found.record.unlink(missing_ok=True)


def cut_while_it_is_on(device: AdbDevice, mode: Mode) -> None:
    """A holder whose line is cut before it can put the mode back."""
    with agent_of(device.serial) as agent:
        agent.run(["true"], "jobs/one", {}, 20)
        device.cut()
    device.mend()
    assert mode.now() == "true"


@pytest.mark.parametrize(
    ("found", "state", "left"),
    [("false", "on", "false"), ("true", "on", "true"), ("unsupported", "not offered", "unsupported")],
)
def test_the_clocks_are_held_while_programs_run_and_put_back(
    device: AdbDevice, mode: Mode, found: str, state: str, left: str
) -> None:
    mode.set(found)
    with agent_of(device.serial) as agent:
        assert mode.now() == found, "only when something runs"
        agent.run(["true"], "jobs/one", {}, 20)
        assert agent.facts()["fixed_performance"] == state
    assert mode.now() == left
    assert not mode.record.exists()


@pytest.mark.parametrize("emulated", [True, False])
def test_the_clocks_of_an_emulated_device_are_left_alone(device: AdbDevice, emulated: bool) -> None:
    link = {"serial": device.serial, "folder": adb.DEFAULT_FOLDER, "emulated": emulated}
    with adb.make(AgentSpec("phone", "x86-64", Path(), link)) as agent:
        agent.run(["true"], "jobs/one", {}, 20)
        assert agent.facts()["fixed_performance"] == ("not asked for" if emulated else "on")


@pytest.mark.parametrize("runs", [False, True])
def test_the_next_holder_puts_back_what_a_lost_one_left_on(device: AdbDevice, mode: Mode, runs: bool) -> None:
    cut_while_it_is_on(device, mode)
    with agent_of(device.serial) as agent:
        assert mode.now() == "false"
        if runs:
            agent.run(["true"], "jobs/one", {}, 20)
            assert mode.now() == "true"
    assert mode.now() == "false"
    assert not mode.record.exists()


def test_what_could_not_be_put_back_yet_is_not_taken_for_the_users_own(device: AdbDevice, mode: Mode) -> None:
    cut_while_it_is_on(device, mode)
    with agent_of(device.serial) as agent:
        mode.set("true")
        mode.record.write_text(f"somebody {boot_of(device)}\n")  # as if the device had refused on the way in
        agent.run(["true"], "jobs/one", {}, 20)
    assert mode.now() == "false"


def test_what_was_recorded_before_the_device_restarted_is_void(device: AdbDevice, mode: Mode) -> None:
    cut_while_it_is_on(device, mode)
    device.reboot()
    mode.set("true")  # by its user: the mode itself ended with the boot
    with agent_of(device.serial) as agent:
        agent.run(["true"], "jobs/one", {}, 20)
    assert mode.now() == "true"
    assert not mode.record.exists()


def test_a_holder_that_lost_its_lease_leaves_the_next_ones_mode_on(device: AdbDevice, mode: Mode) -> None:
    with agent_of(device.serial) as late:
        late.run(["true"], "jobs/one", {}, 20)
        following = agent_of(device.serial)
        following.__enter__()
        following.run(["true"], "jobs/one", {}, 20)
    assert mode.now() == "true"
    following.__exit__(None, None, None)
    assert mode.now() == "false"


def test_a_mode_that_cannot_be_recorded_is_not_switched_on(device: AdbDevice, mode: Mode) -> None:
    with agent_of(device.serial) as agent:
        blocked = mode.record.with_name(f"{RECORD}.new")
        blocked.mkdir()
        agent.run(["true"], "jobs/one", {}, 20)
        blocked.rmdir()
        assert mode.now() == "false"
        assert agent.facts()["fixed_performance"] == "off (cannot be recorded)"


def boot_of(device: AdbDevice) -> str:
    return (device.root / "proc/sys/kernel/random/boot_id").read_text().strip()
