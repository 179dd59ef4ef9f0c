from __future__ import annotations

from pathlib import Path

import pytest

from ci.table import verdict_table
from reports import read_verdict
from tests.reports import sample


def text_of(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    sample.SAMPLES[name]().write(folder)
    return verdict_table(read_verdict(folder / "verdict.json"))


def test_a_pass_says_so_last_and_counts_what_was_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("all_pass", tmp_path / "run", monkeypatch)
    assert text.splitlines()[-1] == "verdict: PASS (exit code 0)"
    assert "layers compared" in text
    assert "real" in text
    assert "emulated" in text


def test_a_failure_names_case_devices_and_reason_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("failing", tmp_path / "run", monkeypatch)
    verdict = read_verdict(tmp_path / "run" / "verdict.json")
    failing = [entry for entry in verdict["cases"] if entry["status"] == "fail"]
    assert text.splitlines()[-1] == "verdict: FAIL (exit code 1)"
    assert failing[0]["first_deviating_layer"] in text.replace("\n", "")
    assert len(text.split("\nFAIL ")) - 1 == len({entry["case"] for entry in failing}), "one block a case, not a device"


def test_what_was_not_tested_is_named_with_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("missing_device", tmp_path / "run", monkeypatch)
    assert "not tested: device" in text
    assert "next: " in text
    assert "verdict: NOT COMPLETE (exit code 3)" in text


@pytest.mark.parametrize("name", ["all_pass", "failing", "missing_device", "crashed", "changed", "hostile"])
def test_it_fits_eighty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text = text_of(name, tmp_path / "run", monkeypatch)
    assert max(map(len, text.splitlines())) <= 80


def test_hostile_names_are_text_not_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("hostile", tmp_path / "run", monkeypatch)
    assert "\x1b" not in text
