import re
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from farm.jobs import JobError, JobStatus, JobView, Role, RunUpdate
from farm.progress import RunProgress, duration, estimate

JOB = JobView(
    id="1", run_id="r", case="page [bold]", device="a53", role=Role.HEAD, position=0, cost=1, timeout=60,
    status=JobStatus.QUEUED, attempts=0, not_before=0, dispatched=None, created=0, started=None, finished=None,
)  # fmt: skip


def show(*updates, terminal):
    out = StringIO()
    with RunProgress(Console(file=out, force_terminal=terminal, width=80), clock=lambda: 31.0) as progress:
        for jobs in updates:
            progress(RunUpdate(run_id="r", jobs=jobs))
    return out.getvalue()


def test_without_a_terminal_each_ended_job_is_one_line():
    running = replace(JOB, status=JobStatus.RUNNING, started=1.0)
    done = replace(JOB, status=JobStatus.DONE, started=1.0, finished=3.5)
    error = JobError(type="X", message="the runner died")
    failed = replace(done, id="2", status=JobStatus.FAILED, role=Role.BASE, error=error)
    assert show((JOB, failed), (running, failed), (done, failed), terminal=False).splitlines() == [
        "[1/2] a53 page [bold] (base) failed 2.5 s: the runner died",
        "[2/2] a53 page [bold] (head) done 2.5 s",
    ]


def test_in_a_terminal_a_table_shows_what_runs():
    running = replace(JOB, status=JobStatus.RUNNING, started=1.0)
    text = show((running, replace(JOB, id="2", status=JobStatus.FAILED)), terminal=True)
    assert "page [bold] (head)" in text
    assert "1 failed" in text
    assert "1 of 2 jobs ended" in text


def test_the_table_tells_elapsed_and_remaining_seconds_in_80_columns():
    done = replace(JOB, id="1", status=JobStatus.DONE, started=1.0, finished=11.0)
    running = replace(JOB, id="2", case="a-case-with-a-very-long-name-that-does-not-fit-the-line-at-all" * 2,
                      status=JobStatus.RUNNING, started=27.0)  # fmt: skip
    other = replace(JOB, id="3", device="a-device-whose-name-is-far-too-long-for-a-column")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", show((done, running, other), terminal=True))
    words = " ".join(plain.split())
    assert re.search(r"a53 [━╺╸]+ 1/2 6 s 4 s a-case-with", words), words
    assert "a-device-whose-name… " in words
    assert "30 s so far, about 16 s left" in words
    assert max(map(len, plain.replace("\r", "\n").splitlines()[:3])) <= 80


def test_nothing_is_foretold_before_a_job_has_ended():
    found = estimate([JOB, replace(JOB, id="2", status=JobStatus.RUNNING, started=1.0)], 5.0)
    assert found.run is None
    assert found.devices == {"a53": None}


def test_a_device_that_works_alone_is_what_the_run_waits_for():
    jobs = [replace(JOB, id="0", status=JobStatus.DONE, cost=2, started=0.0, finished=6.0)]
    jobs += [replace(JOB, id="1", device="slow", cost=10), replace(JOB, id="2", cost=1)]
    found = estimate(jobs, 6.0)
    assert found.devices == {"a53": pytest.approx(3.0), "slow": pytest.approx(30.0)}
    assert found.run == pytest.approx(33.0), "one slot was seen: the work goes one after the other"


JOBS = st.lists(
    st.builds(
        lambda device, cost, status, started, seconds: replace(
            JOB, device=device, cost=cost, status=status, started=started, finished=started + seconds
        ),
        st.sampled_from(["a", "b", "c"]),
        st.floats(0.1, 1e4),
        st.sampled_from(list(JobStatus)),
        st.floats(0, 1e5),
        st.floats(0, 1e4),
    ),
    max_size=12,
)


@given(JOBS)
def test_an_estimate_is_never_negative_and_nought_when_all_has_ended(jobs):
    found = estimate(jobs, 2e5)
    assert all(left is None or left >= 0 for left in found.devices.values())
    if found.run is not None:
        assert found.run >= max(left or 0.0 for left in found.devices.values())
    if all(job.status.ended for job in jobs):
        assert not found.run


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5999, "100 min"), (7200, "2 h"), (864000, "10 d")],
)
def test_durations_are_short(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize("terminal", [False, True])
def test_what_keeps_jobs_waiting_is_said(terminal):
    out = StringIO()
    note = "no worker serves host lab1: start one"
    with RunProgress(Console(file=out, force_terminal=terminal, width=80), clock=lambda: 31.0) as progress:
        for notes in ((), (note,), (note,), ()):
            progress(RunUpdate(run_id="r", jobs=(JOB,), notes=notes))
    assert f"waiting: {note}" in out.getvalue()
    if not terminal:
        assert out.getvalue().splitlines() == [f"waiting: {note}"]
