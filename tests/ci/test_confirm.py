from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ci import confirm
from ci.confirm import Confirmation
from ci.judge import CaseOutcome
from farm.inventory import Device, Link
from farm.jobs import JobError, JobStatus, JobView, Role, RunSummary


def device(name: str, model: str = "m") -> Device:
    return Device(name=name, chip="c", model=model, tier="low", abis=("arm64",), memory_mb=1, link=Link(kind="local"))


PAIR = (device("a"), device("b"))
ALONE = (device("a"), device("other", "n"))


def job(unit: str, planned: str, digest: str | None = None, error: str | None = None) -> JobView:
    return JobView(
        id=unit, run_id="r", case="c", device=unit, role=Role.CONFIRM, position=0, cost=1, timeout=1,
        status=JobStatus.DONE if digest else JobStatus.FAILED, attempts=1, not_before=0, dispatched=None, created=0,
        started=None, finished=None, spec={"planned": planned},
        result={"outputs": [{"name": "y", "digest": digest}]} if digest else None,
        error=JobError(type="X", message=f"{unit} is gone", status=error) if error else None,
    )  # fmt: skip


class Farm:
    """Gives the scripted answer of each unit, and keeps what was asked."""

    def __init__(self, **answers: dict[str, str]) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    def __call__(self, wanted: Any) -> RunSummary:
        self.asked.append([unit.name for _, _, unit in wanted])
        jobs = [job(unit.name, about.name, **self.answers[unit.name]) for _, about, unit in wanted]
        return RunSummary(run_id="r", seconds=0, jobs=tuple(jobs))


def confirmed(
    monkeypatch: pytest.MonkeyPatch, farm: Farm, status: str = "fail", fleet: tuple[Device, ...] = PAIR, there: str = ""
) -> CaseOutcome:
    monkeypatch.setattr(confirm, "confirmation", lambda _matrix, _engine, wanted: wanted)
    first = job("a", "a", digest="1" if status == "fail" else None, error=None if status == "fail" else status)
    outcome = CaseOutcome(
        prepared=SimpleNamespace(case=SimpleNamespace(id="c")),  # type: ignore[arg-type]
        device=fleet[0],
        abi="arm64",
        status=status,  # type: ignore[arg-type]
        reason="wrong",
        job=first,
        verdict=SimpleNamespace(),  # type: ignore[arg-type]
    )
    judge = SimpleNamespace(
        matrix=SimpleNamespace(devices=[(entry, "arm64") for entry in fleet]), outputs_status=lambda *_: there
    )
    steps = Confirmation(judge, SimpleNamespace(), farm, lambda _: None)  # type: ignore[arg-type]
    (found,) = steps.confirmed([outcome])
    return found


@pytest.mark.parametrize(
    ("first", "second", "status", "words"),
    [
        ("fail", {"digest": "1"}, "fail", "wrong; confirmed: a second run gave the same bytes"),
        ("fail", {"digest": "2"}, "flaky", "a second run gave other bytes for y: not repeatable"),
        ("fail", {"error": "infra"}, "fail", "not confirmed: the farm failed on the second run"),
        ("crashed", {"error": "infra"}, "crashed", "not confirmed: the farm failed on the second run"),
        ("fail", {"error": "crashed"}, "flaky", "the second run ended otherwise (crashed)"),
        ("crashed", {"error": "unsupported"}, "flaky", "the second run ended otherwise (unsupported)"),
        ("crashed", {"error": "crashed"}, "crashed", "it crashed again on a second run"),
        ("crashed", {"digest": "1"}, "flaky", "a second run came through"),
    ],
)
def test_without_a_second_unit_the_same_one_runs_again(
    monkeypatch: pytest.MonkeyPatch, first: str, second: dict[str, str], status: str, words: str
) -> None:
    farm = Farm(a=second)
    found = confirmed(monkeypatch, farm, first, fleet=ALONE)
    assert (found.status, farm.asked) == (status, [["a"]])
    assert words in found.reason


@pytest.mark.parametrize(
    ("first", "second", "there", "status", "words"),
    [
        ("fail", {"digest": "1"}, "fail", "fail", "confirmed: a second run gave the same bytes on b, on a second unit"),
        ("fail", {"digest": "2"}, "fail", "fail", "confirmed on a second unit: a and b both fail"),
        ("fail", {"digest": "2"}, "pass", "flaky", "it fails on a and passes on b"),
        ("fail", {"error": "crashed"}, "", "flaky", "the second run ended otherwise (crashed) on b"),
        ("crashed", {"error": "crashed"}, "", "crashed", "crashed again on a second run on b, on a second unit"),
        ("crashed", {"digest": "1"}, "pass", "flaky", "it crashed on a and came through on b"),
    ],
)
def test_a_second_unit_of_the_same_chip_and_model_confirms(
    monkeypatch: pytest.MonkeyPatch, first: str, second: dict[str, str], there: str, status: str, words: str
) -> None:
    farm = Farm(b=second)
    found = confirmed(monkeypatch, farm, first, there=there)
    assert (found.status, farm.asked) == (status, [["b"]])
    assert words in found.reason
    assert [tried.device for tried in found.confirmations] == ["b"]


@pytest.mark.parametrize("status", ["fail", "crashed"])
def test_a_second_unit_that_cannot_be_had_is_told_and_the_first_confirms(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    at_home = {"digest": "1"} if status == "fail" else {"error": "crashed"}
    farm = Farm(b={"error": "infra"}, a=at_home)
    found = confirmed(monkeypatch, farm, status)
    assert (found.status, farm.asked) == (status, [["b"], ["a"]])
    assert "not confirmed on a second unit (b: b is gone); confirmed: " in found.reason
    assert [tried.device for tried in found.confirmations] == ["b", "a"]


def test_what_did_not_fail_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    farm = Farm()
    found = confirmed(monkeypatch, farm, "infra")
    assert (found.status, found.reason, farm.asked) == ("infra", "wrong", [])
