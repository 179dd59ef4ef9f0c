"""A pilot that is killed in the middle goes on where it was, and its page is that of a run nobody disturbed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ci.sensitivity.journal as journal_module
from ci.sensitivity.journal import Journal, Key, open_journal, tree_digest
from ci.sensitivity.page import page
from ci.sensitivity.pilot import run_pilot
from ci.sensitivity.records import ArrayTrial, Pilot, Trial, document
from ci.sensitivity.trials import Bench
from engine.contract.errors import ConfigError, UsageError
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
TRIAL = Trial("voice", "refrt", 2, "nan", "x", float("inf"), True, {"a": True}, {"a": False}, "why")
BENIGN = Trial("voice", "refrt", 0, "", "", 1.5e-7, False, {"a": False}, {"a": False})
ARRAY = ArrayTrial("voice", "nan", "x", {"a": True})
ALL = (TRIAL, BENIGN, ARRAY)


def told(pilot: Pilot) -> dict[str, object]:
    return {name: value for name, value in document(pilot).items() if name != "seconds"}


def opened(folder: Path, **options: bool) -> Journal:
    with open_journal(folder, ROOT, 1, lambda line: None, **options) as journal:
        return journal


def filled(folder: Path) -> Path:
    with open_journal(folder, ROOT, 1, lambda line: None) as journal:
        for trial in (TRIAL, BENIGN):
            journal.trial(Key.of(trial), lambda trial=trial: trial)
        journal.array(Key.of(ARRAY), lambda: ARRAY)
    (path,) = folder.iterdir()
    return path


def killed_in_the_middle(folder: Path, lines: int) -> Path:
    """A pilot of another process, killed outright after so many trials; the journal that it left."""
    lockstep = Path(sys.executable).with_name("lockstep")
    command = [lockstep, "faults", "run", "--seed", "3", "--quick", "--out", folder]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet)
    try:
        wait_until(
            lambda: (
                process.poll() is not None
                or any(path.read_bytes().count(b"\n") >= lines for path in folder.glob("*.jsonl"))
            ),
            "no trial was kept",
        )
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL
    (path,) = folder.iterdir()
    return path


@pytest.mark.timeout(300)
def test_a_killed_pilot_goes_on_repeats_nothing_and_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pilot: Pilot
) -> None:
    path = killed_in_the_middle(tmp_path, 20)
    with path.open("ab") as stream:
        stream.write(b'{"seed": 3, "quick": true, "tr')  # what a kill in the middle of a line leaves
    before = path.read_bytes().splitlines()[:-1]
    made: list[str] = []
    for name in ("benign", "mutant"):
        real = getattr(Bench, name)
        monkeypatch.setattr(Bench, name, lambda *args, real=real, name=name: made.append(name) or real(*args))
    said: list[str] = []
    with open_journal(tmp_path, ROOT, 3, said.append, quick=True) as journal:
        again = run_pilot(ROOT, 3, said.append, quick=True, journal=journal)
    assert said[0].startswith(f"{len(before)} trials taken over from {path}; --fresh")
    assert any(line.endswith("taken over") for line in said[1:])
    assert (told(again), page(again)) == (told(pilot), page(pilot))
    whole = (len(pilot.benign), len(pilot.mutants), len(pilot.arrays))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len(lines) == sum(whole)
    kept = [json.loads(line)["part"] for line in before]
    parts = [kept.count(part) for part in ("benign", "mutant", "array")]
    assert (made.count("benign"), made.count("mutant")) == (whole[0] - parts[0], whole[1] - parts[1])
    assert 20 <= len(before) < sum(whole)


def test_what_is_kept_is_what_was_made_also_where_a_number_was_lost(tmp_path: Path) -> None:
    filled(tmp_path)
    assert tuple(opened(tmp_path).taken_over.values()) == ALL
    assert opened(tmp_path, fresh=True).taken_over == {}
    assert opened(tmp_path).taken_over == {}


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_torn_last_line_is_made_again(tmp_path: Path, left: int) -> None:
    path = filled(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:left])
    assert tuple(opened(tmp_path).taken_over.values()) == (TRIAL, BENIGN)
    assert path.read_bytes() == b"".join(lines[:2])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 2}, "it is of {'seed': 2"),
        ({"tree": "0" * 16}, "it is of .*'tree': '0000000000000000'"),
        ({"failed": "yes"}, "valid dictionary"),
        ({"subject": None}, "valid string"),
    ],
)
def test_a_line_of_another_run_or_of_none_is_refused_and_named(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    path = filled(tmp_path)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[1] |= change
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match=f":2: no trial of this run: .*{words}"):
        opened(tmp_path)


def test_another_seed_or_another_tree_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    with open_journal(tmp_path, ROOT, 2, lambda line: None) as other:
        assert other.taken_over == {}
    assert opened(tmp_path, quick=True).taken_over == {}
    monkeypatch.setattr(journal_module, "versions", lambda: {"ONNX Runtime": "0.1"})
    assert opened(tmp_path).taken_over == {}


def test_sources_that_change_meanwhile_make_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(UsageError, match="sources changed while the pilot ran"),
        open_journal(tmp_path, ROOT, 1, lambda line: None),
    ):
        monkeypatch.setattr(journal_module, "versions", lambda: {"ONNX Runtime": "0.1"})
    assert list(tmp_path.iterdir()) == []


def test_two_pilots_do_not_write_one_journal(tmp_path: Path) -> None:
    with (
        open_journal(tmp_path, ROOT, 1, lambda line: None),
        pytest.raises(UsageError, match="another pilot writes it"),
    ):
        opened(tmp_path)


def test_the_digest_of_the_tree_is_that_of_its_sources_and_packages(tmp_path: Path) -> None:
    for name in ("engine/native/a.cpp", "engines/refrt.yaml", "setup/packages.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    first = tree_digest(tmp_path, {"numpy": "1"})
    assert tree_digest(tmp_path, {"numpy": "1"}) == first != tree_digest(tmp_path, {"numpy": "2"})
    (tmp_path / "engine/native/a.cpp").write_text("changed")
    assert tree_digest(tmp_path, {"numpy": "1"}) != first
