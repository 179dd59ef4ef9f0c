from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agents.probes._text import Unknown
from agents.probes.skew import DeviceClock, Skew, parse
from agents.readings import Place, take
from tests.agents.shells import Shell

NOON = 1_800_000_000
SECOND = 10**9
spans = st.integers(0, 100 * SECOND)


@given(st.integers(-10 * SECOND, 10 * SECOND), spans, spans, spans, st.sampled_from([1, SECOND]))
def test_the_true_difference_lies_within_the_uncertainty(
    skew: int, there: int, work: int, back: int, tick: int
) -> None:
    sent = NOON * SECOND
    first, last = sent + there + skew, sent + there + work + skew
    told = DeviceClock(first // tick * tick, last // tick * tick, tick).against(sent, sent + there + work + back)
    assert isinstance(told, Skew)
    assert abs(told.seconds - skew / SECOND) <= told.uncertainty_seconds + 1e-6
    assert told.uncertainty_seconds <= (there + back) / 2 / SECOND + (1.000001 if tick > 1 else 1e-6)


@given(st.integers(2 * SECOND, 10**6 * SECOND), st.booleans())
def test_a_clock_that_jumps_meanwhile_tells_nothing(jump: int, forwards: bool) -> None:
    sent = NOON * SECOND
    last = sent + jump if forwards else sent - jump
    assert DeviceClock(sent, last, 1).against(sent, sent + SECOND) == Unknown("a clock jumped while it was read")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
def test_nanoseconds_and_seconds_are_told_apart(ending: str) -> None:
    fine = f"{NOON}123456789{ending}{NOON + 1}000000000{ending}"
    assert parse(fine) == DeviceClock(NOON * SECOND + 123456789, (NOON + 1) * SECOND, 1)
    for letters in ("", "N", "%N"):
        coarse = f"{NOON}{letters}{ending}{NOON + 1}{letters}{ending}"
        assert parse(coarse) == DeviceClock(NOON * SECOND, (NOON + 1) * SECOND, SECOND)


@pytest.mark.parametrize("told", ["", f"{NOON}\n", "Sun Nov 29 18:00:00 UTC 2026\n" * 2])
def test_a_device_without_a_clock_says_so(told: str) -> None:
    assert parse(told) == Unknown("date does not tell the seconds since 1970")


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse(text)


@given(st.integers(10**17, 10**19), st.integers(10**17, 10**19))
def test_two_numbers_of_any_size_are_a_clock_or_unknown(first: int, last: int) -> None:
    assume(first != last)
    assert isinstance(parse(f"{first}\n{last}\n"), DeviceClock | Unknown)


def test_this_host_is_not_skewed_against_itself(shell: Shell) -> None:
    reading = take(shell.script, ["skew", "storage", "thermal"], Place("/"))["skew"]
    assert isinstance(reading, Skew)
    assert abs(reading.seconds) <= reading.uncertainty_seconds
