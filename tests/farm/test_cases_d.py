"""Cases D9 to D11: a worker that dies, a member that fails or never answers, a broker that forgets everything."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import Counter

import pytest

from consistency.gate import gate_outcome
from consistency.records import GateCase
from farm.jobs import JobStatus, JobView
from farm.session import FarmSession
from farm.store import attempts_of
from tests.chaos.scenario import faults
from tests.chaos.world import LEASE_SECONDS, World

pytestmark = pytest.mark.services


def status_of(job: JobView) -> str:
    return job.error.status if job.error else "pass"


@pytest.mark.ssh
def test_d9_a_worker_killed_in_the_middle_of_a_push_loses_its_attempt_and_leaves_nothing_behind():
    with World("ssh") as world:
        evidence = world.run(faults()["worker_killed"], "deploying")
        victim = next(job for job in evidence.jobs if job.case == "victim")
        first, second = evidence.attempts[victim.id]
    assert (first.outcome, second.outcome) == ("lost", "done")
    assert "its worker died" in first.error.message
    assert victim.attempts == 2
    assert first.ended - evidence.struck <= LEASE_SECONDS, "known within the time of the lease"
    assert second.started - evidence.struck <= LEASE_SECONDS, "and the device was free again by then"
    assert second.token == first.token + 1
    assert evidence.leftovers == (), "no folder of the dead attempt and no half file"


def test_d10_a_job_that_raises_and_one_whose_result_cannot_be_written_do_not_hold_up_the_report(farm):
    cases = [*(f"c{number}" for number in range(8)), "raises", "write-times-out"]
    plan = [farm.job(case, f"d{number}") for number, case in enumerate(cases)]
    with FarmSession(executor="case_d_executors:by_case", slots=2) as session:
        summary = session.run(farm.plan(session.store, *plan))
        tried = attempts_of(session.store, next(job.id for job in summary.jobs if job.case == "write-times-out"))
    assert all(job.status.ended for job in summary.jobs)
    assert Counter(map(status_of, summary.jobs)) == {"pass": 8, "crashed": 1, "infra": 1}
    jobs = {job.case: job for job in summary.jobs}
    assert jobs["raises"].error.message == "the runner died of SIGSEGV"
    assert jobs["write-times-out"].status is JobStatus.FAILED
    assert jobs["write-times-out"].result is None
    assert {attempt.outcome for attempt in tried} == {"lost"}
    gate = gate_outcome([GateCase(job.case, job.device, status_of(job)) for job in summary.jobs])
    assert (gate.status, gate.exit_code) == ("fail", 1)


def test_d11_twenty_queued_jobs_survive_a_broker_that_comes_back_empty(farm, until):
    log = farm.state / "began"
    log.touch()
    plan = [farm.job(f"c{number}", f"d{number}", log=str(log)) for number in range(20)]
    with FarmSession(executor="case_d_executors:noted", slots=2) as session:
        run_id = farm.plan(session.store, *plan)

        def wipe():
            until(lambda: len(log.read_text().splitlines()) >= 5)
            (pid, _), *_ = farm.processes("valkey-server")
            shutil.rmtree(farm.state / "broker" / "data")
            os.kill(pid, signal.SIGKILL)

        wiping = threading.Thread(target=wipe)
        wiping.start()
        summary = session.run(run_id)
        wiping.join()
        tried = [len(attempts_of(session.store, job.id)) for job in summary.jobs]
    assert {job.status for job in summary.jobs} == {JobStatus.DONE}
    assert tried == [1] * 20
    assert sorted(log.read_text().split()) == sorted(job.case for job in summary.jobs)
