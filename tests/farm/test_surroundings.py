"""Around one run: readings before and after, waiting for a cool chip, governors; on a phone made of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.base import Completed
from agents.local import LocalAgent
from agents.probes.clocks import RECORD
from engine.contract.errors import DeviceUnavailable, LeaseLost, TooHot
from farm.conditions import Conditions
from farm.inventory import Device, Link
from farm.surroundings import Surroundings
from tests.agents.shells import tree_of

SSH: dict[str, Any] = {"kind": "ssh", "host": "pi", "user": "pi"}


class Phone(LocalAgent):
    """A fake: this host, with a sysfs made of files in place of its own, and a link that can be cut."""

    cut: bool = False

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    def _script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
        if self.cut:
            raise DeviceUnavailable(f"{self.name}: the link was lost")
        replaced = [str(self.sys) if value == "/sys" else value for value in arguments]
        return super()._script(text, *replaced, seconds=seconds, stdin=stdin)

    def heat(self, milli: str) -> None:
        tree_of(self.sys / "class/thermal/thermal_zone0", {"type": "cpu-thermal\n", "temp": f"{milli}\n"})

    @property
    def governor(self) -> Path:
        return self.sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"


@pytest.fixture
def phone(tmp_path: Path) -> Phone:
    made = Phone("phone", "x86-64", root=tmp_path / "phone")
    made.root.mkdir()
    made.heat("39600")
    tree_of(made.governor.parent, {"scaling_governor": "schedutil\n", "scaling_cur_freq": "600000\n"})
    return made


def device(model: str = "rocket", **link: Any) -> Device:
    return Device(
        name="phone", chip="c1", model=model, tier="high", abis=("x86-64",), memory_mb=1, link=Link(**(link or SSH))
    )


def no_guard() -> None:
    return None


def around(phone: Phone, unit: Device, **asked: Any) -> Surroundings:
    return Surroundings(phone, unit, Conditions(**asked), no_guard)


def test_readings_before_and_after_are_flat_json(phone: Phone) -> None:
    with around(phone, device()) as seen:
        phone.heat("45100")
    answer = json.loads(json.dumps(seen.answer(), allow_nan=False))["readings"]
    assert answer["of"] == "device"
    assert answer["before"]["chip_celsius"] == 39.6
    assert answer["after"]["chip_celsius"] == 45.1
    assert answer["before"]["governors"] == "0 schedutil"
    assert answer["before"]["battery"] is None
    assert answer["before"]["battery_reason"] == "it has no battery"
    assert answer["notes"] == []
    assert all(not isinstance(value, dict | list) for value in answer["before"].values())


def test_the_memory_of_the_run_itself_is_kept_and_of_no_earlier_one(phone: Phone) -> None:
    (phone.root / "memory.seen").write_text("9999999 9999999 1\n")
    with around(phone, device()) as seen:
        phone.run(["/bin/sh", "-c", "sleep 0.2"], "jobs/one", {}, 20)
    memory = seen.answer()["memory"]
    assert memory["of"] == "runner"
    assert 0 < memory["peak_pss_kib"] <= memory["peak_rss_kib"] < 9999999
    assert memory["memory_samples"] >= 1
    assert not [name for name in (*seen.before, *seen.after) if "peak" in name]


def test_a_run_too_short_to_be_seen_has_no_memory_but_a_reason(phone: Phone) -> None:
    with around(phone, device()) as seen:
        pass
    assert seen.answer()["memory"] == {
        "of": "runner", "peak": None, "peak_reason": "the runner ended before its memory was read"
    }  # fmt: skip


@pytest.mark.parametrize(
    "unit",
    [device(kind="emulated"), device(kind="local")],
    ids=lambda unit: unit.link.kind,
)
def test_the_temperature_beneath_an_emulated_chip_is_never_the_chip_s(phone: Phone, unit: Device) -> None:
    with around(phone, unit) as seen:
        pass
    assert seen.answer()["readings"]["of"] == "host"
    for told in (seen.before, seen.after):
        assert told["host_celsius"] == 39.6
        assert not [name for name in told if name.startswith("chip_")]


def test_an_emulated_device_behind_a_link_has_no_temperature_at_all(phone: Phone) -> None:
    with around(phone, device(kind="adb", serial="127.0.0.1:5555", emulated=True)) as seen:
        phone.run(["/bin/sh", "-c", "sleep 0.2"], "jobs/one", {}, 20)
    readings = seen.answer()["readings"]
    assert (readings["of"], readings["before"]) == ("host", {})
    assert not [name for name in readings["after"] if "celsius" in name or "battery" in name or "governor" in name]
    assert "clock_skew_seconds" in readings["after"]
    assert seen.answer()["memory"]["memory_samples"] >= 1


def test_an_emulated_device_neither_waits_nor_is_called_cool(phone: Phone) -> None:
    phone.heat("90000")
    with around(phone, device(kind="emulated"), cool_to=30, cool_seconds=600, governor="performance") as seen:
        assert phone.governor.read_text() == "schedutil\n"
    assert seen.notes == [
        "cool_to: not applied, the device is emulated or the host itself",
        "governor: not applied, the device is emulated or the host itself",
    ]


def test_a_cool_device_is_said_to_be_so_by_its_reading(phone: Phone) -> None:
    with around(phone, device(), cool_to=40) as seen:
        pass
    assert seen.notes == ["waited for a cool chip: cpu-thermal at 39.6 °C after 0 s (asked for 40 °C)"]


@pytest.mark.parametrize(("told", "words"), [("39600", "still 39.6 °C"), ("0", "temperature unknown")])
def test_a_device_not_known_to_be_cool_in_time_is_inconclusive(phone: Phone, told: str, words: str) -> None:
    phone.heat(told)
    with pytest.raises(TooHot, match=words) as caught, around(phone, device(), cool_to=30, cool_seconds=0.02):
        pytest.fail("it must not run")
    assert caught.value.status == "inconclusive"
    assert "conditions.cool_to" in caught.value.hint


def test_a_lost_lease_ends_the_wait(phone: Phone) -> None:
    def guard() -> None:
        raise LeaseLost("over")

    waiting = Surroundings(phone, device(), Conditions(cool_to=30), guard)
    with pytest.raises(LeaseLost), waiting:
        pytest.fail("it must not run")


def test_a_governor_is_held_for_the_run_and_put_back(phone: Phone) -> None:
    with around(phone, device(), governor="performance") as seen:
        assert phone.governor.read_text() == "performance\n"
    assert phone.governor.read_text() == "schedutil\n"
    assert seen.before["governors"] == "0 performance"
    assert seen.after["governors"] == "0 schedutil"


def test_a_run_that_fails_puts_the_governor_back_and_keeps_its_error(phone: Phone) -> None:
    def run() -> None:
        with around(phone, device(), governor="performance"):
            raise RuntimeError("crashed")

    with pytest.raises(RuntimeError, match="crashed"):
        run()
    assert phone.governor.read_text() == "schedutil\n"


def test_what_a_dead_holder_left_is_put_back_before_any_run(phone: Phone) -> None:
    phone.governor.write_text("performance\n")
    (phone.root / RECORD).write_text("owner dead\ncpu0 schedutil\n")
    with around(phone, device()) as seen:
        assert phone.governor.read_text() == "schedutil\n"
    assert seen.notes == ["governors of an earlier run were put back"]
    assert seen.before["governors"] == "0 schedutil"


def test_a_device_lost_after_the_run_does_not_undo_it(phone: Phone) -> None:
    with around(phone, device(), governor="performance") as seen:
        phone.cut = True
    assert seen.after == {"reason": "the device was lost after the run"}
    assert seen.notes == ["the governors could not be put back: the next lease does it"]


def test_a_device_lost_before_the_run_is_unavailable(phone: Phone) -> None:
    phone.cut = True
    with pytest.raises(DeviceUnavailable, match="the link was lost"), around(phone, device()):
        pytest.fail("it must not run")
