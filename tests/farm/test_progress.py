from dataclasses import replace
from io import StringIO

from rich.console import Console

from farm.jobs import JobError, JobStatus, JobView, Role, RunUpdate
from farm.progress import RunProgress

JOB = JobView(
    id="1", run_id="r", case="page [bold]", device="a53", role=Role.HEAD, position=0, cost=1, timeout=60,
    status=JobStatus.QUEUED, attempts=0, not_before=0, dispatched=None, created=0, started=None, finished=None,
)  # fmt: skip


def show(*updates, terminal):
    out = StringIO()
    with RunProgress(Console(file=out, force_terminal=terminal, width=100)) as progress:
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
