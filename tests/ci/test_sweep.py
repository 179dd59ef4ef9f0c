"""What a sweep is made of, before anything runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ci.cli.sweep import command
from ci.console import Console
from ci.sweep import Part, SweepRequest, _conclude, check_selection, everything, exit_code, together
from ci.sweeptable import sweep_table
from engine.contract.errors import BrokerError, ConfigError, RunCancelled, StoreError, UsageError
from farm.jobs import JobSpec
from farm.store import Store
from farm.sweeps import SweepRuns, begin
from reports import ReportError

REPOSITORY = Path(__file__).parents[2]
REQUEST = SweepRequest(("smoke",), ("refrt", "ort-example"), str(REPOSITORY / "devices.yaml"), tiers=("low",))


def test_everything_means_every_file() -> None:
    suites, engines = everything(REPOSITORY, (), ())
    assert suites == tuple(sorted(path.stem for path in (REPOSITORY / "suites").glob("*.yaml")))
    assert engines == tuple(sorted(path.stem for path in (REPOSITORY / "engines").glob("*.yaml")))
    assert everything(REPOSITORY, ("smoke", "smoke"), ("refrt",)) == (("smoke",), ("refrt",))


def test_what_does_not_exist_is_told_before_anything_is_built(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"unknown suite 'smoek'.*smoke"):
        everything(REPOSITORY, ("smoek",), ())
    with pytest.raises(UsageError, match="refrtt"):
        everything(REPOSITORY, (), ("refrtt",))
    with pytest.raises(UsageError, match="no suite to sweep"):
        everything(tmp_path, (), ())
    for kind in ("devices", "chips", "tiers"):
        with pytest.raises(UsageError, match=f"unknown {kind[:-1]} 'lwo'"):
            check_selection(replace(REQUEST, **{kind: ("lwo",)}))
    check_selection(REQUEST)


def test_a_request_comes_back_from_the_store_as_it_was() -> None:
    assert SweepRequest.of(REQUEST.document()) == REQUEST


@pytest.mark.parametrize(
    ("codes", "code"), [([], 0), ([0, 0], 0), ([0, 3], 3), ([3, 1, 0], 1), ([1, 2, 3], 2), ([0, 1], 1)]
)
def test_the_exit_code_is_the_first_that_applies(codes, code) -> None:
    assert exit_code(codes) == code


class Planned(Part):
    def jobs(self) -> list[JobSpec]:
        return [JobSpec(case=f"c{i}", device="d", position=i, content=f"{self.name}{i}") for i in range(3)]


def test_a_device_takes_one_part_after_the_other_and_cases_say_which() -> None:
    jobs = together([Planned("suites/smoke.yaml", "a"), Part("smoke", "none"), Planned("smoke", "b")])
    assert [job.case for job in jobs] == [f"smoke-{engine}/c{i}" for engine in "ab" for i in range(3)]
    positions = [job.position for job in jobs]
    assert positions == sorted(set(positions))


def test_the_table_fits_80_columns() -> None:
    parts = [
        {"suite": "s" * 60, "engine": "e" * 60, "status": "fail", "cases": {"pass": 1000, "fail": 20, "crashed": 3}},
        {
            "suite": "s",
            "engine": "[red]",
            "status": "not tested",
            "reason": "it does not build",
            "next_step": "mend it",
        },
    ]
    text = sweep_table({"parts": parts, "jobs": 1023, "taken_over": 7, "exit_code": 2})
    assert max(map(len, text.splitlines())) <= 80
    assert "not tested: [red] on s: it does not build" in text
    assert "1023 jobs, 7 taken over from earlier runs; exit code 2" in text


@pytest.fixture
def judging(tmp_path, monkeypatch):
    """Judge one part of a real sweep, where something goes wrong; gives its entry in the report."""

    def judge(error: Exception) -> dict[str, object]:
        def fails(*_: object) -> None:
            raise error

        monkeypatch.setattr("ci.sweep.conclude", fails)
        with Store(f"sqlite:///{tmp_path / 'lockstep.db'}") as store:
            sweep = begin(store, "lab1/a", "c", {"suites": ["smoke"], "engines": ["e"]})
            runs = SweepRuns(store, sweep, lambda _: pytest.fail("no job is missing"))
            part = Planned("smoke", "e", plan=object())
            return _conclude(part, runs, Console(), 1, tmp_path / "part")

    return judge


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError("x.yaml: no", hint="mend it"), 2, "x.yaml: no"),
        (StoreError("blob 1234… is gone", hint="run it again"), 3, "blob 1234… is gone"),
        (ReportError("too many rows", "fewer layers"), 3, "too many rows"),
        (ValueError("odd"), 3, "an unexpected fault inside lockstep: ValueError: odd"),
    ],
)
def test_what_is_wrong_with_one_part_is_told_in_its_place(judging, tmp_path, error, code, words) -> None:
    entry = judging(error)
    assert (entry["status"], entry["exit_code"], entry["reason"]) == ("not judged", code, words)
    assert (tmp_path / "part" / "fault.txt").exists() == ("unexpected" in words)


@pytest.mark.parametrize("error", [BrokerError("away"), RunCancelled("enough"), OSError("no room")])
def test_what_is_wrong_with_the_farm_leaves_the_sweep_unfinished(judging, error) -> None:
    with pytest.raises(type(error)):
        judging(error)


def test_arguments_of_the_night_are_checked_in_the_daytime(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_STATE", str(tmp_path / "state"))
    file = tmp_path / "sweeps.yaml"
    file.write_text("sweeps: [{name: n, every: 5, arguments: [--suit, smoke]}]\n")
    done = CliRunner().invoke(command, ["--beat", str(file)], standalone_mode=False)
    assert isinstance(done.exception, ConfigError)
    assert "arguments of 'n': No such option" in str(done.exception)
