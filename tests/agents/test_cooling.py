"""Waiting for a cool chip; the second half of case C11 of the acceptance cases. No test waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.cooling import INTERVAL_SECONDS, cool_down
from agents.probes._text import Unknown
from agents.probes.thermal import Temperature, Thermal
from engine.contract.errors import DeviceUnavailable, LeaseLost


class Room:
    """A clock that only sleeping moves on, and a device whose readings are given."""

    def __init__(self, readings: Iterator[Thermal | Unknown]) -> None:
        self.now, self.slept, self.readings = 1000.0, 0, readings

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept += 1
        self.now += seconds

    def read(self) -> Thermal | Unknown:
        return next(self.readings)


def chip(celsius: float) -> Thermal:
    return Thermal((Temperature("cpu", "chip", celsius), Temperature("battery", "battery", 20.0)))


def endless(reading: Thermal | Unknown) -> Iterator[Thermal | Unknown]:
    while True:
        yield reading


def test_a_cool_device_waits_for_nothing() -> None:
    room = Room(iter([chip(35.0)]))
    done = cool_down(room.read, 35.0, 600, clock=room.clock, sleep=room.sleep)
    assert (done.cool, done.waited_seconds, done.celsius) == (True, 0.0, 35.0)
    assert done.note == "cpu at 35 °C after 0 s (asked for 35 °C)"


def test_a_warm_device_is_cool_once_a_reading_says_so() -> None:
    room = Room(iter([chip(48.0), Unknown("permission denied"), chip(41.0), chip(34.5)]))
    done = cool_down(room.read, 35.0, 600, clock=room.clock, sleep=room.sleep)
    assert (done.cool, done.waited_seconds) == (True, 3 * INTERVAL_SECONDS)


@pytest.mark.parametrize("reason", ["permission denied", "the thermal service is not ready", "every zone reads 0"])
def test_an_unknown_temperature_ends_at_the_limit_with_a_note_and_never_cool(reason: str) -> None:
    room = Room(endless(Unknown(reason)))
    done = cool_down(room.read, 35.0, 62.0, clock=room.clock, sleep=room.sleep)
    assert (done.cool, done.waited_seconds, done.celsius) == (False, 62.0, None)
    assert done.note == f"not known to be at 35 °C or below after 62 s: temperature unknown ({reason})"


def test_a_device_that_stays_warm_ends_at_the_limit() -> None:
    room = Room(endless(chip(47.5)))
    done = cool_down(room.read, 35.0, 60.0, clock=room.clock, sleep=room.sleep)
    assert not done.cool
    assert done.note == "still 47.5 °C (cpu) after 60 s, asked for 35 °C"


def test_a_cool_battery_says_nothing_of_the_chip() -> None:
    room = Room(endless(Thermal((Temperature("battery", "battery", 21.0),))))
    done = cool_down(room.read, 35.0, 10.0, clock=room.clock, sleep=room.sleep)
    assert not done.cool
    assert "no sensor but the battery's" in done.note


def test_a_temperature_known_once_is_told_when_it_got_lost() -> None:
    room = Room(iter([chip(44.0), *[Unknown("permission denied")] * 3]))
    done = cool_down(room.read, 35.0, 11.0, clock=room.clock, sleep=room.sleep)
    assert done.celsius == 44.0
    assert done.note.endswith("temperature unknown (permission denied); last known: 44 °C")


@pytest.mark.parametrize("error", [LeaseLost("lost"), DeviceUnavailable("gone")])
def test_a_lost_lease_or_device_ends_the_wait_at_once(error: Exception) -> None:
    room = Room(endless(chip(50.0)))

    def guard() -> None:
        if room.slept == 2:
            raise error

    with pytest.raises(type(error)):
        cool_down(room.read, 35.0, 600, guard=guard, clock=room.clock, sleep=room.sleep)
    assert room.slept == 2


@given(
    st.lists(st.one_of(st.floats(1, 150).map(chip), st.just(Unknown("permission denied"))), min_size=1),
    st.floats(20, 90),
    st.floats(0, 300),
)
def test_cool_is_claimed_only_of_a_reading_and_the_limit_holds(
    told: list[Thermal | Unknown], target: float, limit: float
) -> None:
    def all_of_it() -> Iterator[Thermal | Unknown]:
        yield from told
        yield from endless(told[-1])

    room = Room(all_of_it())
    done = cool_down(room.read, target, limit, clock=room.clock, sleep=room.sleep)
    assert done.waited_seconds <= limit + 1e-6
    assert not done.cool or (done.celsius is not None and done.celsius <= target)
