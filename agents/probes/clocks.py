"""Cores: which are online, under which governor, at what clock; and whether a dead holder left a governor behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.probes._text import Flat, Unknown, lines, whole, words

#: Where ``agents/governor.py`` records what it changed, in the device's folder.
RECORD = "governors.record"

EVERY_RUN = True

SCRIPT = (
    r"""
for core in "$sys"/devices/system/cpu/cpu[0-9]*; do
    [ -d "$core" ] || continue
    got=1; [ -e "$core/online" ] && value "$core/online"
    online=$got
    told="core=${core##*/cpu} online=$online"
    if [ "$online" != 0 ] && [ -d "$core/cpufreq" ]; then
        value "$core/cpufreq/scaling_governor"; told="$told governor=$got"
        for key in cur min max; do value "$core/cpufreq/scaling_${key}_freq"; told="$told $key=$got"; done
    fi
    echo "$told"
done
[ -e "$folder/"""
    + RECORD
    + r"""" ] && echo record
:
"""
)

_FIELD = re.compile(r"(core|online|governor|cur|min|max)=(\S*)")


@dataclass(frozen=True)
class Core:
    """One core; clocks in kHz; ``governor`` is empty where the kernel shows none or the core is offline."""

    number: int
    online: bool
    governor: str = ""
    current_khz: int | None = None
    lowest_khz: int | None = None
    highest_khz: int | None = None


@dataclass(frozen=True)
class Clocks:
    """All cores by number; ``left_over`` when a governor's record of an earlier holder lies in the device's folder."""

    cores: tuple[Core, ...]
    left_over: bool = False

    def flat(self) -> Flat:
        """As JSON; equal neighbours are written as ranges."""
        online = [core for core in self.cores if core.online]
        current = [core.current_khz for core in online if core.current_khz is not None]
        governed = any(core.governor for core in online)
        return {
            "cores": len(self.cores),
            "cores_online": len(online),
            "cores_offline": ranges(core.number for core in self.cores if not core.online) or None,
            "governors": self._grouped("governor"),
            "clocks_khz": self._grouped("current_khz"),
            "clock_limits_khz": self._limits(),
            "slowest_core_khz": min(current, default=None),
            **({} if governed else {"clocks_reason": "the kernel shows no clocks (no cpufreq)"}),
        }

    def _grouped(self, attribute: str) -> str | None:
        return _in_groups({core.number: getattr(core, attribute) for core in self.cores if core.online})

    def _limits(self) -> str | None:
        known = [core for core in self.cores if core.online and core.lowest_khz and core.highest_khz]
        return _in_groups({core.number: f"{core.lowest_khz}-{core.highest_khz}" for core in known})


def _in_groups(told: Mapping[int, str | int | None]) -> str | None:
    """``0-3 schedutil, 4-7 walt``; None when no core tells anything."""
    groups: dict[str, list[int]] = {}
    for number, value in told.items():
        if value:
            groups.setdefault(str(value), []).append(number)
    return words(", ".join(f"{ranges(numbers)} {value}" for value, numbers in groups.items())) or None


def parse(text: str) -> Clocks | Unknown:
    """Read what ``SCRIPT`` printed."""
    told = lines(text)
    cores = {}
    for line in told:
        fields = dict(_FIELD.findall(line))
        number = whole(fields.get("core", ""))
        if number is not None and number >= 0:
            cores[number] = _core(number, fields)
    if not cores:
        return Unknown("the kernel shows no cores in sysfs")
    return Clocks(tuple(cores[number] for number in sorted(cores)), "record" in told)


def _core(number: int, fields: dict[str, str]) -> Core:
    clocks = [whole(fields.get(key, "")) for key in ("cur", "min", "max")]
    governor = words(fields.get("governor", ""))
    return Core(
        number,
        fields.get("online", "1") != "0",
        "" if governor.startswith("!") else governor,
        *(clock if clock is not None and clock > 0 else None for clock in clocks),
    )


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,6`` for 0, 1, 2, 3 and 6."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
