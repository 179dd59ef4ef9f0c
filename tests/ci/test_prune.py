"""``lockstep prune`` on a real store and real folders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from ci.cli.prune import command
from ci.prune import accepted_runs, age, ages
from ci.prunetable import size
from engine.contract.errors import UsageError
from farm.inuse import alone_with, using
from farm.jobs import JobSpec, RunSpec
from farm.retention import AGES
from farm.store import Store, create_run, jobs_of
from farm.store.jobs import finish_run
from farm.store.runs import list_runs
from farm.store.transitions import claim, finish


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("state", "cache"):
        monkeypatch.setenv(f"LOCKSTEP_{name.upper()}", str(tmp_path / name))
    monkeypatch.delenv("LOCKSTEP_STORE_URL", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prune(*words: str) -> Result:
    done = CliRunner().invoke(command, words, standalone_mode=False)
    if done.exception:
        raise done.exception
    assert max(map(len, done.output.splitlines())) <= 80
    return done


def old_mutant(home: Path, name: str = "old.onnx") -> Path:
    path = home / "cache" / "mutants" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 2048)
    os.utime(path, (time.time() - 8 * 86400,) * 2)
    return path


def old_run(blob: str = "x") -> str:
    with Store(clock=lambda: time.time() - 100 * 86400) as store:
        run_id = create_run(store, RunSpec(suite="s", engine="e", command="c"), [JobSpec(case="c", device="d")])
        finish(store, claim(store, jobs_of(store, run_id)[0].id, "w", 10), {"much": blob})
        finish_run(store, run_id, "done")
    return run_id


def test_a_dry_run_tells_and_removes_nothing(home: Path) -> None:
    path = old_mutant(home)
    run = old_run()
    told = prune("--dry-run", "--keep-runs", "0").output
    assert "mutants old.onnx, 2.0 KiB, last used 8 d ago" in told
    assert f"jobs {run}" in told
    assert "would free" in told
    assert "nothing was removed" in told
    assert path.exists()
    with Store() as store:
        assert len(list_runs(store)) == 1


def test_what_is_old_goes_and_the_bytes_are_told(home: Path) -> None:
    path = old_mutant(home)
    assert "freed 2.0 KiB" in prune().output
    assert not path.exists()


def test_the_store_gives_its_room_back(home: Path) -> None:
    old_run("x" * 2_000_000)
    before = (home / "state" / "lockstep.db").stat().st_size
    prune("--keep-runs", "0")
    assert (home / "state" / "lockstep.db").stat().st_size < before / 10


def test_while_a_gate_runs_its_cache_stays(home: Path) -> None:
    path = old_mutant(home)
    with using(home / "cache"), using(home / "cache"):  # gates share it
        assert "the cache was left alone" in prune().output
    assert path.exists()
    with Store() as store:
        create_run(store, RunSpec(suite="s", engine="e", command="c"), [JobSpec(case="c", device="d")])
    assert "the cache was left alone" in prune().output, "another host drives a run"
    assert path.exists()


def test_nobody_is_alone_with_a_cache_that_is_used(home: Path) -> None:
    with alone_with(home / "cache") as first, alone_with(home / "cache") as second:
        assert (first, second) == (True, False)


def test_what_an_expectation_was_accepted_from_is_found(home: Path) -> None:
    folder = home / "expectations" / "chip-model"
    folder.mkdir(parents=True)
    entry = {
        "case": "c",
        "chip_model": "chip-model",
        "engine": "e",
        "kind": "accepted",
        "owner": "ann",
        "reason": "why",
    }
    text = yaml.safe_dump({**entry, "accepted": "2026-01-01", "run": "basis", "outputs": {}})
    (folder / "c.yaml").write_text(text)
    assert accepted_runs(home) == {"basis"}


def test_ages_are_the_defaults_unless_said() -> None:
    assert ages((), None, ()) == AGES
    assert set(ages((), "2w", ()).values()) == {14 * 86400.0}
    assert ages(("logs", "jobs"), "1d", ("jobs=1y",)) == {"jobs": 365 * 86400.0, "logs": 86400.0}


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5d", "30 d", "30m", "1e3d", "9999999d"])
def test_what_is_no_age_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="is no age"):
        age(text)


def test_an_unknown_kind_is_told_with_the_nearest() -> None:
    for words in (("--kind", "log"), ("--keep", "log=3d")):
        with pytest.raises(UsageError, match=r"unknown kind 'log'.*logs"):
            prune(*words)


@given(st.integers(0, 2**60))
def test_sizes_are_short(count: int) -> None:
    assert len(size(count)) <= 14
    assert size(count).split()[1] in ("B", "KiB", "MiB", "GiB", "TiB")
