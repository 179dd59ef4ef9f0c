from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.probes._text import Unknown
from agents.probes.battery import Battery, parse
from agents.readings import Place, take
from tests.agents.shells import Shell, tree_of

Sample = Callable[[str], str]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("8", Battery(100, "full", True, "good", 28.6)),
        ("16", Battery(81, "discharging", False, "good", 39.6)),
    ],
)
def test_the_battery_service_of_every_release_is_read(
    sample: Sample, release: str, expected: Battery, ending: str
) -> None:
    assert parse("@service\n" + sample(f"battery-android{release}.txt").replace("\n", ending)) == expected


def test_values_that_somebody_set_are_no_reading(sample: Sample) -> None:
    reading = parse("@service\n" + sample("battery-set-by-hand.txt"))
    assert isinstance(reading, Unknown)
    assert "dumpsys battery reset" in reading.reason


def test_a_level_is_a_share_of_its_scale() -> None:
    reading = parse("@service\nlevel: 100\nscale: 200\n")
    assert isinstance(reading, Battery)
    assert reading.percent == 50


def test_a_dead_sensor_of_the_service_is_replaced_by_the_kernel_s() -> None:
    reading = parse("@service\nlevel: 50\ntemperature: 0\n@supply\ntype=Battery\ncapacity=50\ntemp=301\n@end\n")
    assert isinstance(reading, Battery)
    assert reading.celsius == 30.1


def test_a_second_gauge_that_is_dead_does_not_count() -> None:
    dead = "@supply\nname=bms\ntype=Battery\ntemp=0\n"
    live = "@supply\nname=battery\ntype=Battery\ncapacity=77\nstatus=Not charging\nhealth=Good\ntemp=396\n"
    for text in (dead + live, live + dead):
        assert parse(text + "@end\n") == Battery(77, "not charging", None, "good", 39.6)


def test_the_battery_of_a_mouse_is_not_the_device_s() -> None:
    assert parse("@supply\ntype=Battery\nscope=Device\ncapacity=9\n@end\n") == Unknown("it has no battery")


@pytest.mark.parametrize(("online", "plugged"), [("0", False), ("1", True), ("!permission denied", False)])
def test_a_supply_that_is_on_means_plugged(online: str, plugged: bool) -> None:
    reading = parse(f"@supply\ntype=Battery\ncapacity=5\n@supply\ntype=USB\nonline={online}\n@end\n")
    assert isinstance(reading, Battery)
    assert reading.plugged is plugged


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("", "it has no battery"),
        ("@service\npresent: false\nlevel: 0\n", "it has no battery"),
        ("@service\nCan't find service: battery\n", "battery service: the service is not there"),
        ("@service\nPermission Denial: can't dump\n", "battery service: permission denied"),
    ],
)
def test_without_a_reading_there_is_a_reason(told: str, reason: str) -> None:
    assert parse(told) == Unknown(reason)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for told in (text, f"@service\nlevel: 5\n{text}", f"@supply\ntype=Battery\n{text}"):
        reading = parse(told)
        assert isinstance(reading, Unknown) or reading.percent is None or 0 <= reading.percent <= 100


def test_power_supplies_are_read_in_the_shells_of_devices(shell: Shell, tmp_path: Path) -> None:
    supply = "class/power_supply"
    files = {
        f"{supply}/ac/type": "Mains\n",
        f"{supply}/ac/online": "1\n",
        f"{supply}/battery/type": "Battery\n",
        f"{supply}/battery/capacity": "64\n",
        f"{supply}/battery/status": "Charging\n",
        f"{supply}/battery/health": "Good\n",
        f"{supply}/battery/temp": "312\n",
    }
    place = Place("/", str(tmp_path), str(tree_of(tmp_path / "sys", files)))
    assert take(shell.script, ["battery"], place)["battery"] == Battery(64, "charging", True, "good", 31.2)
