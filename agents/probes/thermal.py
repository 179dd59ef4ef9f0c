"""How hot the chip is: the kernel's thermal zones, and Android's thermal service where no zone tells of the chip.

Makers print whole degrees, tenths or thousandths under the same name, and dead sensors print 0 or -1. The unit is
deduced: see ``celsius``. Zones that carry a voltage, a current or a state of charge are no temperatures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from agents.probes._text import Flat, Unknown, decimal, pairs, refusal, sections, whole, words

EVERY_RUN = True

SCRIPT = r"""
echo @zones
known=
for zone in "$sys"/class/thermal/thermal_zone*; do
    [ -d "$zone" ] || continue
    value "$zone/type"; type=$got
    value "$zone/temp"; echo "$type=$got"
    case $type,$got in *cpu*,[1-9]* | *soc[-_]*,[1-9]* | *tsens*,[1-9]* | *pkg*,[1-9]*) known=1 ;; esac
done
echo @service
if [ -z "$known" ] && command -v dumpsys >/dev/null; then bounded dumpsys thermalservice 2>&1; fi
echo @end
"""

#: No chip works above; a larger number is told in a smaller unit.
HOTTEST_CHIP = 150.0
#: No battery is charged or discharged above.
HOTTEST_BATTERY = 100.0

#: Zones of Qualcomm's battery limiter and the like: millivolts, milliamperes, per cent.
_NO_TEMPERATURE = re.compile(r"(^|[-_])(ibat|vbat|vph|bcl|lvl\d*)([-_]|$)", re.IGNORECASE)
_BATTERY = re.compile(r"batt|bms|chg|charger", re.IGNORECASE)
_CHIP = re.compile(
    r"cpu|gpu|npu|tpu|apu|soc|tsens|core|cluster|big|little|mid|package|x86_pkg|k10temp|mtk(ts|_)|bcm2|exynos|chip|nsp",
    re.IGNORECASE,
)
#: Types of android.hardware.thermal that are temperatures of silicon: CPU, GPU, NPU, TPU, SOC.
_CHIP_TYPES = {0, 1, 9, 10, 13}
_BATTERY_TYPE = 2
#: Voltage, current and per cent of the battery's limiter.
_NO_TEMPERATURE_TYPES = {6, 7, 8}
_TEMPERATURE = re.compile(r"Temperature\{\s*mValue=([^,}\s]+)\s*,\s*mType=(-?\d{1,4})\s*,\s*mName=([^,}]*)")


@dataclass(frozen=True)
class Temperature:
    """One sensor in °C; ``part`` is ``chip``, ``battery`` or ``other`` (skin, modem, display …)."""

    name: str
    part: str
    celsius: float


@dataclass(frozen=True)
class Thermal:
    """All sensors that tell a temperature; ``ignored`` counts the others.

    ``os_status`` is Android's own 0…6 (it may stay 0 while a device throttles: never evidence of a cool one).
    """

    temperatures: tuple[Temperature, ...]
    ignored: int = 0
    os_status: int | None = None

    @property
    def chip(self) -> Temperature | None:
        """The hottest sensor of the chip; where none is named so, the hottest that is not the battery's."""
        chips = [entry for entry in self.temperatures if entry.part == "chip"]
        others = [entry for entry in self.temperatures if entry.part == "other"]
        return max(chips or others, key=lambda entry: entry.celsius, default=None)

    def flat(self) -> Flat:
        """As JSON."""
        chip = self.chip
        return {
            "chip_celsius": chip.celsius if chip else None,
            "chip_sensor": chip.name if chip else None,
            "sensors": len(self.temperatures),
            "sensors_ignored": self.ignored,
            "os_thermal_status": self.os_status,
            **({} if chip else {"chip_reason": "only the battery tells a temperature"}),
        }


def celsius(told: str, hottest: float = HOTTEST_CHIP) -> float | None:
    """Degrees of what a sensor printed, or None when it is no temperature.

    39.6, 396 and 39600 are 39.6 °C: of degrees, tenths and thousandths the first that gives at most ``hottest``.
    Zero and less is what dead sensors print (a device in a room is warmer), and ignored.
    """
    value = decimal(told)
    if value is None or not value > 0:
        return None
    for divisor in (1, 10, 1000):
        if value / divisor <= hottest:
            return round(value / divisor, 3)
    return None


def parse(text: str) -> Thermal | Unknown:
    """Read what ``SCRIPT`` printed: zones first; the service where no zone tells a chip's temperature."""
    found = sections(text, "@")
    zones, service = found.get("zones", []), found.get("service", [])
    told = [*_of_zones(zones), *_of_service(service)]
    good = tuple(dict.fromkeys(entry for entry in told if entry is not None))
    if not good:
        return Unknown(_why(zones, service))
    return Thermal(good, sum(entry is None for entry in told), _status(service))


def _of_zones(zones: Iterable[str]) -> list[Temperature | None]:
    result = []
    for line in zones:
        name, _, value = line.rpartition("=")
        result.append(_zone(words(name), value))
    return result


def _zone(name: str, value: str) -> Temperature | None:
    part = _part(name)
    degrees = celsius(value, HOTTEST_BATTERY if part == "battery" else HOTTEST_CHIP)
    # a zone of the plain name "soc" is the state of charge in per cent on Qualcomm's kernels
    charge = name.lower() == "soc" and (decimal(value) or math.inf) <= 100
    if degrees is None or charge or _NO_TEMPERATURE.search(name):
        return None
    return Temperature(name or "unnamed", part, degrees)


def _part(name: str) -> str:
    if _BATTERY.search(name):
        return "battery"
    return "chip" if _CHIP.search(name) else "other"


def _of_service(service: Iterable[str]) -> list[Temperature | None]:
    """Values of the HAL, which are degrees; the cache where the HAL's are not printed (each sensor once)."""
    newest: dict[tuple[int, str], Temperature | None] = {}
    for line in service:
        for value, kind, name in _TEMPERATURE.findall(line):
            number = int(kind)
            if number in _NO_TEMPERATURE_TYPES:
                continue
            part = "chip" if number in _CHIP_TYPES else "battery" if number == _BATTERY_TYPE else "other"
            degrees = celsius(value, HOTTEST_BATTERY if part == "battery" else HOTTEST_CHIP)
            label = words(name) or "unnamed"
            newest[number, label] = Temperature(label, part, degrees) if degrees is not None else None
    return list(newest.values())


def _status(service: Iterable[str]) -> int | None:
    told = pairs(service, ":")
    return whole(told.get("Thermal Status", told.get("ThermalStatus", "")))


def _why(zones: list[str], service: list[str]) -> str:
    reasons = []
    if service:
        told = refusal(" ".join(service))
        ready = pairs(service, ":").get("HAL Ready") != "false"
        silent = "the thermal service tells none" if ready else "the thermal service is not ready"
        reasons.append(f"thermal service: {told}" if told else silent)
    if zones:
        refused = sorted({line.rpartition("=!")[2] for line in zones if "=!" in line})
        silent = "every thermal zone reads 0, less or nonsense"
        reasons.append(f"thermal zones: {words(', '.join(refused))}" if refused else silent)
    return "; ".join(reasons) or "it has neither thermal zones nor a thermal service"
