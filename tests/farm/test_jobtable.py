import pytest

from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.jobtable import JobTable
from farm.store import create_run, jobs_of
from farm.store.jobs import touch_run
from farm.store.models import JobRow
from farm.store.transitions import cancel_jobs, claim, finish, reserve


@pytest.fixture
def run(store):
    jobs = [JobSpec(case=f"c{number}", device=f"d{number % 2}", position=number) for number in range(4)]
    run_id = create_run(store, RunSpec(suite="s", engine="e", command="c"), jobs)
    touch_run(store, run_id, "me")
    return run_id


def test_a_refresh_reads_what_is_on_its_way_and_nothing_else(store, run):
    table = JobTable(store, run)
    first, second = table.jobs[0].id, table.jobs[1].id
    assert not table.refresh()
    reserve(store, [first])
    assert table.read([first])
    taken = claim(store, first, "w", 5.0)
    assert table.refresh()
    assert table.jobs[0].status is JobStatus.RUNNING
    finish(store, taken, {})
    assert table.refresh()
    assert not table.refresh()
    assert table.jobs == jobs_of(store, run, documents=False)
    claim(store, second, "w", 5.0)  # not sent by us
    assert not table.refresh()
    assert table.verify()
    assert table.jobs == jobs_of(store, run, documents=False)


def test_what_others_did_to_the_run_is_seen_by_counting(store, run):
    table = JobTable(store, run)
    assert not table.verify()
    assert not table.ended
    assert [job.queue for job in table.one_open_job_a_queue()] == [""]
    cancel_jobs(store, run, "stopped")
    assert not table.refresh()
    assert table.verify()
    assert table.ended
    assert table.one_open_job_a_queue() == []


def test_in_doubt_everything_is_read(store, run):
    table = JobTable(store, run)
    with store.write() as session:
        for row in session.query(JobRow).filter_by(run_id=run):
            row.device = "elsewhere"
    assert not table.verify()
    assert table.verify(doubt=True)
    assert {job.device for job in table.jobs} == {"elsewhere"}


def test_what_moved_on_its_way_is_no_reason_to_read_everything(store, run, monkeypatch):
    table = JobTable(store, run)
    first = table.jobs[0].id
    reserve(store, [first])
    table.read([first])
    monkeypatch.setattr(table, "load", lambda: pytest.fail("read everything"))
    finish(store, claim(store, first, "w", 5.0), {})
    assert table.verify()
    assert not table.verify()
    assert table.jobs == jobs_of(store, run, documents=False)
