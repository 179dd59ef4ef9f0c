from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ci.expectations import ExpectationFile, expectation_path, find_expectation, write_expectation
from engine.contract.errors import ConfigError

ENTRY = ExpectationFile(
    case="vad-noise",
    chip_model="cortex-a53-qemu",
    engine="refrt",
    kind="accepted",
    owner="a@example.org",
    reason="new kernels",
    accepted=datetime.date(2026, 1, 2),
    expires=datetime.date(2027, 1, 2),
    run="r1",
    outputs={"speech_probs": "0" * 32},
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = write_expectation(tmp_path, ENTRY)
    assert path == tmp_path / "expectations" / "cortex-a53-qemu" / "vad-noise.yaml"
    found = find_expectation(tmp_path, "cortex-a53-qemu", "vad-noise", "refrt")
    assert found is not None
    assert (found.owner, found.reason, found.expires) == ("a@example.org", "new kernels", "2027-01-02")
    assert found.outputs == ENTRY.outputs


@given(reason=st.text(min_size=3).map(str.strip).filter(lambda text: len(text) >= 3))
@example(reason="0\x850")
@example(reason="a\u2028b\u2029c")
def test_any_reason_survives_the_file(tmp_path_factory: pytest.TempPathFactory, reason: str) -> None:
    folder = tmp_path_factory.mktemp("reason")
    write_expectation(folder, ENTRY.model_copy(update={"reason": reason}))
    found = find_expectation(folder, ENTRY.chip_model, ENTRY.case, "refrt")
    assert found is not None
    assert found.reason == reason


def test_an_expectation_of_another_engine_does_not_count(tmp_path: Path) -> None:
    write_expectation(tmp_path, ENTRY)
    assert find_expectation(tmp_path, ENTRY.chip_model, ENTRY.case, "another") is None


def test_none_is_none(tmp_path: Path) -> None:
    assert find_expectation(tmp_path, ENTRY.chip_model, ENTRY.case, "refrt") is None


def test_a_file_moved_to_another_place_is_refused(tmp_path: Path) -> None:
    path = write_expectation(tmp_path, ENTRY)
    path.rename(path.with_name("vad-speech.yaml"))
    with pytest.raises(ConfigError, match="the file's place and its content must agree"):
        find_expectation(tmp_path, ENTRY.chip_model, "vad-speech", "refrt")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".."])
def test_names_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name an expectation file"):
        expectation_path(tmp_path, name, "case")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("owner: a@example.org", "owner: ''", "owner"),
        ("reason: new kernels", "reason: x", "reason"),
        ("kind: accepted", "kind: fine", "kind"),
        ("'2027-01-02'", "soon", "expires"),
        ("0" * 32, "xyz", "is not a digest"),
        ("engine: refrt", "engin: refrt", "did you mean 'engine'"),
    ],
)
def test_a_broken_file_names_the_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = write_expectation(tmp_path, ENTRY)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=words):
        find_expectation(tmp_path, ENTRY.chip_model, ENTRY.case, "refrt")
