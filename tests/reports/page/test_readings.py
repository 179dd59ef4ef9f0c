from __future__ import annotations

from typing import Any

import pytest

from reports.page.readings import readings_in_words

FULL = {
    "chip_celsius": 39.6, "chip_sensor": "cpu-0-0", "battery_percent": 81, "battery_status": "discharging",
    "plugged": False, "cores": 8, "cores_online": 7, "governors": "0-5 schedutil, 7 walt",
    "clock_skew_seconds": 61.5, "clock_skew_uncertainty_seconds": 0.02,
}  # fmt: skip


def record(before: dict[str, Any], after: dict[str, Any] | None = None, of: str = "device", notes: Any = ()) -> Any:
    return {"readings": {"of": of, "before": before, "after": after or {}, "notes": list(notes)}}


def test_a_record_without_readings_has_no_words() -> None:
    assert readings_in_words({}) == []
    assert readings_in_words(record({})) == []


def test_everything_known_is_told() -> None:
    told = readings_in_words(record(FULL, {"reason": "the device was lost after the run"}, notes=["cpu6 is offline"]))
    assert told == [
        ("Device, before the run", "39.6 °C (cpu-0-0); battery 81 %, discharging, not plugged in; 7 of 8 cores online, "
         "governors 0-5 schedutil, 7 walt; clock 61.5 s ahead of the host's (± 0.02 s)"),
        ("Device, after the run", "the device was lost after the run"),
        ("Note", "cpu6 is offline"),
    ]  # fmt: skip


def test_the_peak_of_memory_says_whose_it_is() -> None:
    memory = {"of": "runner under its emulator", "peak_rss_kib": 61440, "peak_pss_kib": 51200, "memory_samples": 3}
    told = readings_in_words({**record({}), "memory": memory})
    assert told == [("Peak memory", "RSS 60 MiB, PSS 50 MiB of the runner under its emulator")]
    del memory["peak_pss_kib"]
    assert readings_in_words({"memory": memory}) == [("Peak memory", "RSS 60 MiB of the runner under its emulator")]
    assert readings_in_words({"memory": {"of": "runner", "peak": None, "peak_reason": "too short"}}) == []


def test_the_host_s_temperature_is_called_the_host_s() -> None:
    told = readings_in_words(record({"host_celsius": 61.0, "host_sensor": "x86_pkg_temp"}, of="host"))
    assert told == [("Host beneath the device, before the run", "61 °C (x86_pkg_temp)")]


@pytest.mark.parametrize(
    "told", [{"thermal": None, "thermal_reason": "denied"}, {"chip_celsius": None, "chip_reason": "denied"}]
)
def test_an_unknown_temperature_says_why(told: dict[str, Any]) -> None:
    assert readings_in_words(record(told))[0][1] == "temperature unknown: denied"


@pytest.mark.parametrize(("skew", "exact"), [(0.9, 0.001), (5.0, 6.0), (-5.0, 5.0), (None, None)])
def test_a_difference_of_clocks_that_is_none_is_not_told(skew: float | None, exact: float | None) -> None:
    told = {"clock_skew_seconds": skew, "clock_skew_uncertainty_seconds": exact}
    assert readings_in_words(record(told)) == []
