"""How far the device's clock is from the host's.

The device tells its time twice, at the beginning and at the end of one round trip. Whatever lies between is known on
both sides, so that only the travel is uncertain, however long the readings in between took.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.probes._text import Flat, Unknown, lines

EVERY_RUN = True

#: ``agents/readings.py`` asks a second time when all other probes are through.
SCRIPT = "now\n"

# date +%s%N: nine digits more, where date knows nanoseconds; busybox prints the letters
_CLOCK = re.compile(r"([0-9]{9,11})([0-9]{9})?(?:%?N)?")


@dataclass(frozen=True)
class DeviceClock:
    """The device's clock in nanoseconds since 1970 at its first and last word; it ticks every ``tick_ns``."""

    first_ns: int
    last_ns: int
    tick_ns: int

    def against(self, sent_ns: int, received_ns: int) -> Skew | Unknown:
        """Compare with the host's clock before the question and after the answer.

        The device's first word came after ``sent`` and its last before ``received``: both bound the difference.
        """
        latest = self.first_ns + self.tick_ns - sent_ns
        earliest = self.last_ns - received_ns
        if self.last_ns < self.first_ns or latest < earliest:
            return Unknown("a clock jumped while it was read")
        return Skew((latest + earliest) / 2e9, (latest - earliest) / 2e9)

    def flat(self) -> Flat:
        """As JSON: nothing, before it is compared with the host's."""
        return {}


@dataclass(frozen=True)
class Skew:
    """Device minus host in seconds, exact to ``uncertainty_seconds`` either way."""

    seconds: float
    uncertainty_seconds: float

    def flat(self) -> Flat:
        """As JSON."""
        return {
            "clock_skew_seconds": round(self.seconds, 3),
            "clock_skew_uncertainty_seconds": round(self.uncertainty_seconds, 3),
        }


def parse(text: str) -> DeviceClock | Unknown:
    """Read the two times."""
    found = [match for line in lines(text) if (match := _CLOCK.fullmatch(line))]
    if len(found) < 2:
        return Unknown("date does not tell the seconds since 1970")
    fine = all(match[2] for match in found)
    times = [int(match[1]) * 10**9 + (int(match[2]) if fine else 0) for match in found]
    return DeviceClock(times[0], times[-1], 1 if fine else 10**9)
