from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports import words
from tests.reports import sample


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.31, "0.31"),
        (0.00012, "1.2e-4"),
        (1e-4, "1e-4"),
        (123456.0, "1.23e5"),
        (-0.000012345, "-1.23e-5"),
        (3168, "3\u202f168"),
        (0, "0"),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert words.number(value) == text


def test_what_cannot_be_seen_is_written_out() -> None:
    assert words.visible("a\x00b\u202ec\nd\ud800") == "a\\x00b\\u202ec\\x0ad\\ud800"
    assert words.visible("猫 é ✓") == "猫 é ✓"


def test_names_are_listed_briefly() -> None:
    assert words.named([]) == ""
    assert words.named(["a"]) == "a"
    assert words.named(["a", "b", "c"]) == "a, b and c"
    assert words.named(list("abcdefgh")) == "a, b, c, d and 4 more"


def test_units() -> None:
    assert words.size(999) == "999 B"
    assert words.size(2_140_000) == "2.14 MB"
    assert words.seconds(62.4) == "1 min 2 s"
    assert words.seconds(9.96) == "10.0 s"


def test_the_loudest_status_wins() -> None:
    assert words.loudest(["pass", "infra", "fail"]) == "fail"
    assert words.loudest([]) == "not_tested"


@pytest.mark.parametrize(
    ("name", "title", "detail", "step"),
    [
        (
            "all_pass",
            "Pass: 6 cases agree on 6 chips",
            "Every layer has the same bits on every chip.",
            "Nothing to do.",
        ),
        ("changed", "Pass: 6 cases agree on 6 chips", "8 results have new bits, within bounds.", "Read what changed"),
        (
            "failing",
            "Fail: 24 of 36 results wrong, on all 6 chips",
            "p2o.pd_op.conv2d.4.0",
            "broke the model on purpose",
        ),
        ("crashed", "Fail: 6 of 36 results wrong, on a9", "Crashed: the runner died of SIGILL", "Read the failures"),
        ("missing_device", "Incomplete: 1 required result could not be had", "that is not a pass: rv64", "make setup"),
        ("empty", "Incomplete: nothing was compared", "not a pass", "run without --case"),
        ("hostile", "Fail: 2 of 2 results wrong", "BaNaNa_Infinity", "lockstep accept 20261129-031500-5d1c22f --case"),
    ],
)
def test_headlines(name: str, title: str, detail: str, step: str) -> None:
    head = words.headline(sample.SAMPLES[name]().verdict)
    assert title in head.title
    assert detail in head.detail
    assert step in head.next_step


def test_a_known_failure_that_passes_asks_for_its_entry_to_go() -> None:
    run = sample.all_pass()
    run.verdict["cases"][0]["notes"] = ["known_failure_passes"]
    assert "remove its entry from expectations/" in words.headline(run.verdict).next_step


def test_an_error_never_reads_as_a_pass() -> None:
    run = sample.all_pass()
    run.verdict |= {"status": "error", "exit_code": 3}
    assert words.headline(run.verdict).title == "Error: the run did not finish"


def test_every_note_that_a_verdict_may_carry_has_words() -> None:
    schema = json.loads((Path(words.__file__).parent / "verdict.schema.json").read_text())
    notes = set(schema["$defs"]["case"]["properties"]["notes"]["items"]["enum"])
    assert notes == set(words.NOTE_WORDS) == set(words.NOTE_MARKS)
