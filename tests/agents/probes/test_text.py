"""Numbers and lines of devices; case D2 of the acceptance cases, as far as numbers go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.probes._text import LONGEST, decimal, lines, pairs, refusal, sections, whole, words

ENDINGS = ["", "\n", "\r\n", "\r\r\n", "\r\r\r\n"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_number_reads_the_same_whatever_its_line_ended_with(ending: str) -> None:
    assert whole(f"7{ending}") == 7
    assert decimal(f"39.6{ending}") == 39.6


@given(st.integers(-(10**17), 10**17), st.sampled_from(ENDINGS))
def test_every_number_survives_every_ending(number: int, ending: str) -> None:
    assert whole(f"{number}{ending}") == number


@pytest.mark.parametrize(
    "told", ["", "7 8", "7\n8", "0x7", "1_000", "seven", "٧", "--7", "7" * 19, "nan", "inf", "1e999"]
)
def test_what_is_not_one_number_is_no_number(told: str) -> None:
    assert whole(told) is None
    assert decimal(told) is None or told == "7" * 19


@given(st.text(alphabet=st.characters(exclude_characters="\r\n\t \0"), min_size=1), st.sampled_from(ENDINGS[1:]))
def test_a_carriage_return_is_never_part_of_a_line(word: str, ending: str) -> None:
    assert lines(f"{word}{ending}{word}{ending}") == [word, word]


def test_of_a_key_that_comes_twice_the_first_counts() -> None:
    assert pairs(["a: 1", "b", "a: 2", "c:"], ":") == {"a": "1", "c": ""}


def test_what_stands_before_the_first_section_belongs_to_nobody() -> None:
    assert sections("welcome\n@one\r\na\n@two\n@one\nb\n", "@") == {"one": ["a", "b"], "two": []}


@given(st.text())
def test_words_of_a_device_are_one_short_printable_line(text: str) -> None:
    assert len(words(text)) <= LONGEST
    assert words(text).isprintable()


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("cat: temp: Permission denied", "permission denied"),
        ("Permission Denial: can't dump BatteryService from pid=1, uid=2000", "permission denied"),
        ("Can't find service: thermalservice", "the service is not there"),
        ("*** SERVICE 'battery' DUMP TIMED OUT (10000ms) EXPIRED ***", "the service did not answer"),
        ("sh: dumpsys: not found", "no such command"),
        ("/system/bin/sh: dumpsys: inaccessible or not found", "no such command"),
        ("level: 7", None),
    ],
)
def test_a_refusal_is_told_in_the_same_words_everywhere(told: str, reason: str | None) -> None:
    assert refusal(told) == reason
