"""Temperatures; case C11 of the acceptance cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.probes._text import Unknown
from agents.probes.thermal import HOTTEST_BATTERY, HOTTEST_CHIP, Temperature, Thermal, celsius, parse
from agents.readings import Place, take
from tests.agents.shells import Shell, tree_of

Sample = Callable[[str], str]


def zones(**told: str) -> str:
    return "@zones\n" + "".join(f"{name.replace('_', '-')}={value}\n" for name, value in told.items()) + "@end\n"


@pytest.mark.parametrize("told", ["39600", "396", "39.6", "39.600", "396\r", "39600\r\r\n", " 39.6 "])
def test_degrees_tenths_and_thousandths_are_one_temperature(told: str) -> None:
    assert celsius(told) == 39.6
    assert celsius(told, HOTTEST_BATTERY) == 39.6


@pytest.mark.parametrize("told", ["0", "0.0", "-1", "-40000", "-273150", "", "NaN", "inf", "n/a", "39600000000"])
def test_what_dead_sensors_print_is_no_temperature(told: str) -> None:
    assert celsius(told) is None


@given(st.integers(160, 1490), st.sampled_from([10, 100, 1000]))
def test_the_unit_is_no_difference(tenths: int, per_degree: int) -> None:
    told = str(tenths * per_degree // 10) if per_degree > 10 else str(tenths)
    if per_degree == 100:
        told = f"{tenths / 10}"
    assert celsius(told) == tenths / 10


@given(st.text() | st.floats().map(str) | st.integers().map(str))
def test_a_temperature_is_in_range_or_none(told: str) -> None:
    degrees = celsius(told)
    assert degrees is None or 0 <= degrees <= HOTTEST_CHIP


@pytest.mark.parametrize("value", ["39600", "396", "39.6"])
def test_a_second_sensor_that_is_dead_does_not_count(value: str) -> None:
    reading = parse(zones(cpu_thermal=value, battery="33000", battery2="0.0", gpu_thermal="-1"))
    assert isinstance(reading, Thermal)
    assert reading.chip == Temperature("cpu-thermal", "chip", 39.6)
    assert [entry.name for entry in reading.temperatures] == ["cpu-thermal", "battery"]
    assert reading.ignored == 2


def test_only_dead_sensors_are_an_unknown_temperature() -> None:
    assert parse(zones(cpu_thermal="0", battery="-1")) == Unknown("every thermal zone reads 0, less or nonsense")


def test_the_chip_is_its_hottest_sensor_and_the_battery_none_of_it() -> None:
    reading = parse(zones(cpu0="41000", cpu7="52500", gpu="47000", battery="55000", skin="60000"))
    assert isinstance(reading, Thermal)
    assert reading.chip == Temperature("cpu7", "chip", 52.5)


def test_without_a_sensor_of_the_chip_the_hottest_other_one_stands_in_but_never_the_battery() -> None:
    reading = parse(zones(skin="36000", pa="38000", battery="45000"))
    assert isinstance(reading, Thermal)
    assert reading.chip == Temperature("pa", "other", 38.0)
    alone = parse(zones(battery="31000"))
    assert isinstance(alone, Thermal)
    assert alone.chip is None
    assert alone.flat()["chip_reason"] == "only the battery tells a temperature"


@pytest.mark.parametrize(
    ("name", "value"),
    [("vbat", "4211"), ("pm8150b-ibat-lvl0", "2500"), ("pm7250b-vbat-lvl1", "3700"), ("pm8150b-bcl-lvl2", "75"),
     ("soc", "98"), ("ibat", "900")],
)  # fmt: skip
def test_a_voltage_a_current_or_a_charge_is_no_temperature(name: str, value: str) -> None:
    reading = parse(f"@zones\ncpu-1-0=40100\n{name}={value}\n@end\n")
    assert isinstance(reading, Thermal)
    assert reading.chip == Temperature("cpu-1-0", "chip", 40.1)


def test_a_chip_zone_called_soc_is_a_temperature() -> None:
    reading = parse("@zones\nsoc-thermal=48000\nsoc=51200\n@end\n")
    assert isinstance(reading, Thermal)
    assert reading.chip == Temperature("soc", "chip", 51.2)


@pytest.mark.parametrize(
    ("release", "sensor", "status"),
    [
        ("android10", Temperature("cpu", "chip", 50.9), 2),
        ("android13", Temperature("CPU0", "chip", 39.6), 0),
        ("android16", Temperature("TPU", "chip", 62.5), 1),
    ],
)
def test_the_thermal_service_of_every_release_is_read(
    sample: Sample, release: str, sensor: Temperature, status: int
) -> None:
    reading = parse("@service\n" + sample(f"thermalservice-{release}.txt") + "@end\n")
    assert isinstance(reading, Thermal)
    assert reading.chip == sensor
    assert reading.os_status == status


def test_the_service_prints_volts_and_per_cent_beside_temperatures(sample: Sample) -> None:
    reading = parse("@service\n" + sample("thermalservice-android13.txt"))
    assert isinstance(reading, Thermal)
    assert {entry.name for entry in reading.temperatures} == {"CPU0", "CPU7", "GPU0", "battery", "skin"}
    assert reading.ignored == 2  # battery2 says 0.0, nsp0 says NaN


def test_a_service_that_is_not_ready_gives_no_temperature(sample: Sample) -> None:
    assert parse("@service\n" + sample("thermalservice-not-ready.txt")) == Unknown("the thermal service is not ready")


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("Can't find service: thermalservice", "thermal service: the service is not there"),
        ("Permission Denial: can't dump ThermalManagerService", "thermal service: permission denied"),
    ],
)
def test_a_service_that_refuses_says_why(told: str, reason: str) -> None:
    assert parse(f"@zones\n@service\n{told}\n@end\n") == Unknown(reason)


def test_zones_that_may_not_be_read_say_why() -> None:
    assert parse("@zones\ncpu=!permission denied\ngpu=!permission denied\n@end\n") == Unknown(
        "thermal zones: permission denied"
    )


def test_a_device_without_any_sensor_says_so() -> None:
    assert parse("@zones\n@service\n@end\n") == Unknown("it has neither thermal zones nor a thermal service")


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for told in (text, f"@zones\n{text}", f"@service\n{text}"):
        reading = parse(told)
        assert isinstance(reading, Unknown) or all(0 <= entry.celsius <= HOTTEST_CHIP for entry in reading.temperatures)


def test_the_script_reads_zones_in_the_shells_of_devices(shell: Shell, tmp_path: Path) -> None:
    files = {
        "class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "class/thermal/thermal_zone0/temp": "39600\n",
        "class/thermal/thermal_zone1/type": "battery with blanks\n",
        "class/thermal/thermal_zone1/temp": "0\n",
        "class/thermal/thermal_zone2/type": "gone\n",
    }
    sys = tree_of(tmp_path / "sys", files)
    reading = take(shell.script, ["thermal"], Place("/", str(tmp_path), str(sys)))["thermal"]
    assert reading == Thermal((Temperature("cpu-thermal", "chip", 39.6),), ignored=2)


def test_the_script_asks_the_service_where_there_is_one(shell: Shell, tmp_path: Path, sample: Sample) -> None:
    (tmp_path / "told").write_text(sample("thermalservice-android16.txt"))
    shell.add_command("dumpsys", f'[ "$*" = thermalservice ] && cat {tmp_path}/told\n')
    reading = take(shell.script, ["thermal"], Place("/", str(tmp_path), str(tmp_path)))["thermal"]
    assert isinstance(reading, Thermal)
    assert reading.chip == Temperature("TPU", "chip", 62.5)


def test_a_service_that_is_not_there_says_so_in_the_shells_of_devices(shell: Shell, tmp_path: Path) -> None:
    shell.add_command("dumpsys", 'echo "Can\'t find service: $1" >&2; exit 20\n')
    reading = take(shell.script, ["thermal"], Place("/", str(tmp_path), str(tmp_path)))["thermal"]
    assert reading == Unknown("thermal service: the service is not there")
