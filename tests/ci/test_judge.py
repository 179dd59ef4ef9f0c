from __future__ import annotations

from ci.judge import _earlier, _left_out, _plain_runs, _ran_otherwise
from consistency.records import ObservedLayer, Stats
from farm.jobs import AttemptView, JobError, JobStatus, JobView, Role

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


def head(*tries: AttemptView, device: str = "a", moved: str = "") -> JobView:
    return JobView(
        id="j", run_id="r", case="c", device=device, role=Role.HEAD, position=0, cost=1, timeout=1,
        status=JobStatus.DONE, attempts=len(tries), not_before=0, dispatched=None, created=0, started=None,
        finished=None, tries=tries, spec={"moved": moved},
    )  # fmt: skip


def tried(number: int, device: str, outcome: str, error: str = "") -> AttemptView:
    found = JobError(type="DeviceUnavailable", message=error) if error else None
    return AttemptView(
        job_id="j", number=number, token=1, worker="w", started=0, ended=1, outcome=outcome, error=found, device=device
    )


def test_an_answer_at_the_first_attempt_needs_no_words() -> None:
    assert _earlier(head(tried(1, "a", "done")), "a") == ""


def test_an_answer_after_an_infrastructure_fault_says_what_came_before_and_where_it_ran() -> None:
    job = head(tried(1, "a", "error", "a is gone"), tried(2, "b", "done"), device="b")
    assert _earlier(job, "a") == "attempt 1 on a: a is gone; this is attempt 2, on b"


def test_a_job_that_moved_before_its_first_attempt_says_so() -> None:
    job = head(tried(1, "b", "done"), device="b", moved="a is held")
    assert _earlier(job, "a") == "a is held; this is attempt 1, on b"


def test_what_ran_otherwise_than_asked_is_said() -> None:  # A15
    asked = {"backend": "cpu", "precision": "default", "threads": 4}
    ran = {"backend": "cpu", "precision": "fp16", "threads": 1, "dispatch": "neon"}
    told = "asked for precision default, it ran with fp16, asked for threads 4, it ran with 1"
    assert _ran_otherwise({"requested": asked, "effective": ran}) == told
    assert _ran_otherwise({"requested": asked, "effective": asked | {"dispatch": "neon"}}) == ""


def test_looks_for_which_there_was_no_time_are_named() -> None:
    told = "left out, for it took too long (a larger `limits.seconds` allows more): layers alone, layers on one thread"
    assert _left_out({"left_out": ["layers alone", "layers on one thread"]}) == told
    assert _left_out({"left_out": []}) == _left_out({}) == ""


def test_runs_of_a_device_against_itself_are_plain_runs_with_their_threads() -> None:  # A12
    stats = dict.fromkeys(Stats.__dataclass_fields__, 0)
    again = [{"threads": 1, "outputs": {"y": "b" * 32}, "stats": {"y": stats}}]
    answer = passes("a" * 32) | {"again": again, "effective": {"threads": 4}}
    runs = _plain_runs(answer, (OUTPUT,))
    assert [(run.iteration, run.threads) for run in runs] == [(0, 4), (1, 1)]
    assert runs[1].stats["y"] == Stats(**stats)
