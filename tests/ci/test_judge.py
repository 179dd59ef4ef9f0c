from __future__ import annotations

from types import SimpleNamespace

import pytest

from ci.judge import _confirmed, _plain_runs
from consistency.records import ObservedLayer, Stats

STATS = Stats(1, 1, 0, 0.5, 0, 1.0, 0.5, 0.5, 0.25, 0.25, 1.0, 0.5, 0)
OUTPUT = ObservedLayer("y", "output", "float32", (1,), "a" * 32, stats=STATS)


def passes(*digests: str) -> dict:
    return {
        "passes": [
            {"kind": "plain", "iteration": index, "outputs": {"y": digest}, "latency_ns": 1}
            for index, digest in enumerate(digests)
        ]
        + [{"kind": "instrumented", "iteration": 0, "outputs": {"y": "c" * 32}, "latency_ns": 1}]
    }


def test_statistics_belong_only_to_the_iterations_that_gave_those_bytes() -> None:
    runs = _plain_runs(passes("b" * 32, "a" * 32), (OUTPUT,))
    assert [dict(run.stats) for run in runs] == [{}, {"y": STATS}]


def test_the_instrumented_pass_is_no_plain_run() -> None:
    assert len(_plain_runs(passes("a" * 32), (OUTPUT,))) == 1


class Again:
    """A second run that gave ``job``."""

    def __init__(self, job: object) -> None:
        self.job = job

    def of(self, *_: object) -> object:
        return self.job


def failed(status: str, digest: str = "a" * 32):
    from ci.judge import CaseOutcome  # noqa: PLC0415

    answer = {"outputs": [{"name": "y", "digest": digest}]} if status == "fail" else None
    return CaseOutcome(
        prepared=SimpleNamespace(case=SimpleNamespace(id="c")),  # type: ignore[arg-type]
        device=SimpleNamespace(name="d"),  # type: ignore[arg-type]
        abi="x",
        status=status,  # type: ignore[arg-type]
        reason="wrong",
        job=SimpleNamespace(result=answer),  # type: ignore[arg-type]
        verdict=SimpleNamespace(),  # type: ignore[arg-type]
    )


def job(digest: str | None = None, error: str | None = None) -> SimpleNamespace:
    result = {"outputs": [{"name": "y", "digest": digest}]} if digest else None
    return SimpleNamespace(result=result, error=SimpleNamespace(status=error) if error else None)


@pytest.mark.parametrize(
    ("first", "second", "status", "words"),
    [
        ("fail", job("a" * 32), "fail", "confirmed: a second run gave the same bytes"),
        ("fail", job("b" * 32), "flaky", "a second run gave other bytes for y"),
        ("fail", job(error="infra"), "fail", "not confirmed: the farm failed on the second run"),
        ("crashed", job(error="infra"), "crashed", "not confirmed: the farm failed on the second run"),
        ("fail", job(error="crashed"), "flaky", "the second run ended otherwise (crashed)"),
        ("crashed", job(error="unsupported"), "flaky", "the second run ended otherwise (unsupported)"),
        ("crashed", job(error="crashed"), "crashed", "it crashed again on a second run"),
        ("crashed", job("a" * 32), "flaky", "a second run came through"),
    ],
)
def test_a_failure_counts_only_when_a_second_run_repeats_it(
    first: str, second: object, status: str, words: str
) -> None:
    outcome = _confirmed(failed(first), Again(second))  # type: ignore[arg-type]
    assert outcome.status == status
    assert words in outcome.reason


def test_without_a_second_run_nothing_changes() -> None:
    outcome = failed("fail")
    assert _confirmed(outcome, Again(None)) is outcome  # type: ignore[arg-type]
