"""The state of a device around one run, in words."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def readings_in_words(record: Json) -> list[tuple[str, str]]:
    """Label and words, before and after the run; nothing where none were taken. Absent readings say why."""
    readings = record.get("readings")
    if not readings:
        return _memory(record.get("memory", {}))
    whose = "Host beneath the device" if readings["of"] == "host" else "Device"
    told = [(f"{whose}, {when} the run", _state(readings[when])) for when in ("before", "after")]
    notes = [("Note", note) for note in readings["notes"]]
    return [entry for entry in told if entry[1]] + _memory(record.get("memory", {})) + notes


def _memory(told: Json) -> list[tuple[str, str]]:
    if told.get("peak_rss_kib") is None:
        return []
    pss = f", PSS {told['peak_pss_kib'] / 1024:.0f} MiB" if told.get("peak_pss_kib") is not None else ""
    return [("Peak memory", f"RSS {told['peak_rss_kib'] / 1024:.0f} MiB{pss} of the {told.get('of')}")]


def _state(told: Json) -> str:
    parts = [_temperature(told), _battery(told), _cores(told), _skew(told), told.get("reason")]
    return "; ".join(part for part in parts if part)


def _temperature(told: Json) -> str:
    for part in ("chip", "host"):
        degrees = told.get(f"{part}_celsius")
        if degrees is not None:
            return f"{degrees:g} °C ({told.get(f'{part}_sensor')})"
    reason = told.get("thermal_reason") or told.get("chip_reason") or told.get("host_reason")
    return f"temperature unknown: {reason}" if reason else ""


def _battery(told: Json) -> str:
    if told.get("battery_percent") is None:
        return ""
    plugged = {True: ", plugged in", False: ", not plugged in"}.get(told.get("plugged"), "")  # type: ignore[arg-type]
    return f"battery {told['battery_percent']} %, {told.get('battery_status')}{plugged}"


def _cores(told: Json) -> str:
    if not told.get("cores"):
        return ""
    online = f"{told.get('cores_online')} of {told['cores']} cores online"
    return f"{online}, governors {told['governors']}" if told.get("governors") else online


def _skew(told: Json) -> str:
    """Only where the clocks differ by more than the reading can tell."""
    skew, exact = told.get("clock_skew_seconds"), told.get("clock_skew_uncertainty_seconds")
    if skew is None or exact is None or abs(skew) <= max(exact, 1.0):
        return ""
    return f"clock {abs(skew):.3g} s {'ahead of' if skew > 0 else 'behind'} the host's (± {exact:.2g} s)"
