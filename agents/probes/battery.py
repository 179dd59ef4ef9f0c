"""The battery: level, what it does, whether it is plugged in, its health and temperature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.probes._text import Flat, Unknown, lines, pairs, refusal, sections, whole, words
from agents.probes.thermal import HOTTEST_BATTERY, celsius

EVERY_RUN = True

SCRIPT = r"""
echo @service
if command -v dumpsys >/dev/null; then bounded dumpsys battery 2>&1; fi
for supply in "$sys"/class/power_supply/*; do
    [ -d "$supply" ] || continue
    echo "@supply"
    for key in type scope present online capacity status health temp; do
        [ -e "$supply/$key" ] && value "$supply/$key" && echo "$key=$got"
    done
done
echo @end
"""

#: BatteryManager's numbers.
_STATUS = {1: "unknown", 2: "charging", 3: "discharging", 4: "not charging", 5: "full"}
_HEALTH = {1: "unknown", 2: "good", 3: "overheat", 4: "dead", 5: "over voltage", 6: "failure", 7: "cold"}


@dataclass(frozen=True)
class Battery:
    """Level in per cent, temperature in °C; what is not told is None (words: ``unknown``)."""

    percent: int | None
    status: str
    plugged: bool | None
    health: str
    celsius: float | None

    def flat(self) -> Flat:
        """As JSON."""
        return {
            "battery_percent": self.percent,
            "battery_status": self.status,
            "plugged": self.plugged,
            "battery_health": self.health,
            "battery_celsius": self.celsius,
        }


def parse(text: str) -> Battery | Unknown:
    """Read what ``SCRIPT`` printed: Android's service where it answers, else the kernel's power supplies."""
    service = sections(text, "@").get("service", [])
    told = pairs(service, ":")
    kernel = _of_kernel(_supplies(text))
    if "level" in told:
        return _of_service(told, service, kernel)
    if isinstance(kernel, Battery):
        return kernel
    if service:
        return Unknown(f"battery service: {refusal(' '.join(service)) or 'it tells no level'}")
    return kernel


def _supplies(text: str) -> list[dict[str, str]]:
    """What each power supply told; sections of one name would run into one another."""
    blocks: list[list[str]] = []
    inside = False
    for line in lines(text):
        if line.startswith("@"):
            inside = line == "@supply"
            if inside:
                blocks.append([])
        elif inside:
            blocks[-1].append(line)
    return [pairs(block, "=") for block in blocks]


def _of_service(told: Mapping[str, str], service: list[str], kernel: Battery | Unknown) -> Battery | Unknown:
    if any("UPDATES STOPPED" in line for line in service):
        return Unknown("its battery service shows values that somebody set: `adb shell dumpsys battery reset`")
    if told.get("present") == "false":
        return Unknown("it has no battery")
    level, scale = whole(told["level"]), whole(told.get("scale", "100")) or 100
    powered = [value for key, value in told.items() if key.endswith(" powered")]
    degrees = celsius(told.get("temperature", ""), HOTTEST_BATTERY)
    if degrees is None and isinstance(kernel, Battery):
        degrees = kernel.celsius
    return Battery(
        _percent(level * 100 // scale if level is not None else None),
        _STATUS.get(whole(told.get("status", "")) or 0, "unknown"),
        "true" in powered if powered else None,
        _HEALTH.get(whole(told.get("health", "")) or 0, "unknown"),
        degrees,
    )


def _of_kernel(supplies: list[dict[str, str]]) -> Battery | Unknown:
    """The device's own battery: a battery of scope Device belongs to a mouse or a pen."""
    own = [entry for entry in supplies if entry.get("type") == "Battery" and entry.get("scope") != "Device"]
    own = [entry for entry in own if entry.get("present", "1") != "0"]
    if not own:
        return Unknown("it has no battery")
    # a second fuel gauge often is a dead one: what it says is taken only where the first says nothing
    first = max(own, key=lambda entry: whole(entry.get("capacity", "")) is not None)
    degrees = [celsius(entry.get("temp", ""), HOTTEST_BATTERY) for entry in (first, *own)]
    online = [entry["online"] for entry in supplies if entry.get("type") != "Battery" and "online" in entry]
    return Battery(
        _percent(whole(first.get("capacity", ""))),
        words(first.get("status", "")).lower() or "unknown",
        any(value not in ("0", "") and not value.startswith("!") for value in online) if online else None,
        words(first.get("health", "")).lower() or "unknown",
        next((value for value in degrees if value is not None), None),
    )


def _percent(level: int | None) -> int | None:
    return level if level is not None and 0 <= level <= 100 else None
