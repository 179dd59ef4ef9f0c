"""Waiting until a chip is cool enough, with a limit.

The limit is not a temperature: a device that is still warm then, or that does not tell, is never called cool.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from agents.probes._text import Unknown
from agents.probes.thermal import Temperature, Thermal

#: Between two readings: a chip loses some tenths of a degree in this time.
INTERVAL_SECONDS = 5.0
#: Less is not worth another reading.
SHORTEST_SECONDS = 0.01


@dataclass(frozen=True)
class Cooled:
    """How a wait ended: ``cool`` only if a reading said so. ``celsius`` is the last one known, ``note`` the story."""

    cool: bool
    waited_seconds: float
    celsius: float | None
    note: str


def cool_down(
    read: Callable[[], Thermal | Unknown],
    to_celsius: float,
    limit_seconds: float,
    *,
    guard: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Cooled:
    """Wait until the chip has at most ``to_celsius``, at most ``limit_seconds``.

    ``read`` reads the device, ``guard`` raises when the device is not ours any more. What these raise ends the wait.
    """
    begun = clock()
    last: Temperature | None = None
    while True:
        guard()
        reading = read()
        waited = clock() - begun
        chip = reading.chip if isinstance(reading, Thermal) else None
        if chip is not None and chip.celsius <= to_celsius:
            told = f"{chip.name} at {chip.celsius:g} °C after {waited:.0f} s (asked for {to_celsius:g} °C)"
            return Cooled(True, waited, chip.celsius, told)
        last = chip or last
        if limit_seconds - waited < SHORTEST_SECONDS:
            return Cooled(False, waited, last.celsius if last else None, _too_late(reading, last, to_celsius, waited))
        sleep(min(INTERVAL_SECONDS, limit_seconds - waited))


def _too_late(reading: Thermal | Unknown, last: Temperature | None, to_celsius: float, waited: float) -> str:
    asked = f"not known to be at {to_celsius:g} °C or below after {waited:.0f} s"
    if isinstance(reading, Unknown):
        before = f"; last known: {last.celsius:g} °C" if last else ""
        return f"{asked}: temperature unknown ({reading.reason}){before}"
    if reading.chip is None:
        return f"{asked}: no sensor but the battery's"
    return f"still {reading.chip.celsius:g} °C ({reading.chip.name}) after {waited:.0f} s, asked for {to_celsius:g} °C"
