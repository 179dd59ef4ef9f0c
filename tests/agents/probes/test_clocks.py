from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.probes._text import Unknown
from agents.probes.clocks import RECORD, Clocks, Core, parse, ranges
from agents.readings import Place, take
from tests.agents.shells import Shell, tree_of

PHONE = """core=0 online=1 governor=schedutil cur=300000 min=300000 max=1804800
core=1 online=1 governor=schedutil cur=300000 min=300000 max=1804800
core=10 online=1 governor=walt cur=2841600 min=691200 max=2841600
core=2 online=0
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
def test_cores_are_told_by_number_and_in_groups(ending: str) -> None:
    reading = parse(PHONE.replace("\n", ending))
    assert isinstance(reading, Clocks)
    assert [core.number for core in reading.cores] == [0, 1, 2, 10]
    assert reading.flat() == {
        "cores": 4,
        "cores_online": 3,
        "cores_offline": "2",
        "governors": "0-1 schedutil, 10 walt",
        "clocks_khz": "0-1 300000, 10 2841600",
        "clock_limits_khz": "0-1 300000-1804800, 10 691200-2841600",
        "slowest_core_khz": 300000,
    }


def test_a_kernel_without_cpufreq_says_so() -> None:
    reading = parse("core=0 online=1\ncore=1 online=1\n")
    assert isinstance(reading, Clocks)
    assert reading.flat()["governors"] is None
    assert reading.flat()["clocks_reason"] == "the kernel shows no clocks (no cpufreq)"


def test_a_clock_that_may_not_be_read_is_none_and_not_zero() -> None:
    reading = parse("core=0 online=1 governor=!permission denied cur=!permission denied min=0 max=-5\n")
    assert reading == Clocks((Core(0, True),))


def test_no_cores_at_all_is_unknown() -> None:
    assert parse("") == Unknown("the kernel shows no cores in sysfs")


@given(st.sets(st.integers(0, 200)))
def test_ranges_say_every_number_once(numbers: set[int]) -> None:
    told: list[int] = []
    for part in ranges(numbers).split(",") if numbers else []:
        first, _, last = part.partition("-")
        told.extend(range(int(first), int(last or first) + 1))
    assert told == sorted(numbers)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for told in (text, f"core=0 online=1 governor={text}", f"core={text}"):
        reading = parse(told)
        assert isinstance(reading, Unknown) or reading.flat()["cores"] >= 1  # type: ignore[operator]


def test_sysfs_is_read_in_the_shells_of_devices(shell: Shell, tmp_path: Path) -> None:
    cpu = "devices/system/cpu"
    files = {f"{cpu}/cpu6/online": "0\n", f"{cpu}/cpu0/topology/core_id": "0\n", f"{cpu}/cpuidle/none": ""}
    for key, told in {"governor": "walt", "cur_freq": "600000", "min_freq": "300000", "max_freq": "900000"}.items():
        files[f"{cpu}/cpu1/cpufreq/scaling_{key}"] = f"{told}\n"
    files[f"{cpu}/cpu1/online"] = "1\n"
    sys = tree_of(tmp_path / "sys", files)
    home = tree_of(tmp_path / "home", {})
    home.mkdir()
    place = Place(str(home), "/proc", str(sys))
    cores = (Core(0, True), Core(1, True, "walt", 600000, 300000, 900000), Core(6, False))
    assert take(shell.script, ["clocks"], place)["clocks"] == Clocks(cores)
    (home / RECORD).touch()
    assert take(shell.script, ["clocks"], place)["clocks"] == Clocks(cores, left_over=True)
