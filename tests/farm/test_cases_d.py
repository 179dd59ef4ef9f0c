"""Cases of group D through real workers, store and broker.

D5 a transfer that stands still, D7 an adb server that another version ends, D9 a worker that dies, D10 a member that
fails or never answers, D11 a broker that forgets everything.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from consistency.gate import gate_outcome
from consistency.records import GateCase
from farm.devicestates import DeviceState
from farm.jobs import JobStatus, JobView
from farm.session import FarmSession
from farm.store import attempts_of
from farm.store.devices import record_of
from tests.chaos import checks
from tests.chaos.boards import AdbBoard, Phones
from tests.chaos.scenario import faults
from tests.chaos.world import LEASE_SECONDS, VICTIMS, Evidence, World
from tests.waiting import wait_until

pytestmark = pytest.mark.services


def status_of(job: JobView) -> str:
    return job.error.status if job.error else "pass"


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phones]:
    with Phones(tmp_path_factory.mktemp("phones")) as started:
        yield started


def harassed(world: World, moment: str, cases: tuple[str, ...], strike: Callable[[World, str], None]) -> Evidence:
    """Run the world's jobs, and strike each of ``cases`` once, when its first attempt is at ``moment``."""
    over = threading.Event()
    wrong: list[BaseException] = []

    def harass() -> None:
        try:
            for case in cases:
                wait_until(world.reached, over=over)
                strike(world, case)
        except BaseException as error:
            wrong.append(error)
        finally:
            for case in cases:
                world.let_go(moment, case)

    for case in cases:
        world.stop_at(moment, case)
    thread = threading.Thread(target=harass)
    thread.start()
    try:
        evidence = world.calm()
    finally:
        over.set()
        thread.join()
    if wrong:
        raise AssertionError(outcomes(evidence), [job.error for job in evidence.jobs]) from wrong[0]
    return evidence


def adb(world: World) -> AdbBoard:
    assert isinstance(world.board, AdbBoard)
    return world.board


def outcomes(evidence: Evidence) -> dict[str, list[str]]:
    """How each attempt at each job ended."""
    return {job.case: [tried.outcome for tried in evidence.attempts[job.id]] for job in evidence.jobs}


@pytest.mark.adb
def test_d5_a_transfer_that_stands_still_is_repeated_and_a_device_that_does_it_again_is_left_alone(phones):
    jobs = (("victim", VICTIMS, 0), ("victim-2", VICTIMS, 1), ("after", VICTIMS, 2), ("other", "device-1", 0))
    half: list[str] = []

    def stall(world: World, case: str) -> None:
        adb(world).phone.cut(silent=True)
        world.let_go("deploying", case)
        wait_until(lambda: attempts_of(world.store, world.victim(case).id)[0].outcome == "error")
        kept = (adb(world).folder / "blobs").iterdir()
        half.extend(path.name for path in kept if hashlib.sha256(path.read_bytes()).hexdigest() != path.name)
        adb(world).mend()

    with World("adb", phones, jobs=jobs, payload={"health": {"backoff_seconds": 1.0}}, silence=2.0) as world:
        evidence = harassed(world, "deploying", ("victim", "victim-2"), stall)
        with world.store.read() as session:
            record = record_of(session, VICTIMS, world.store.clock())
    found = {job.case: job for job in evidence.jobs}
    assert outcomes(evidence) == {"victim": ["error", "done"], "victim-2": ["error"], "after": [], "other": ["done"]}
    for case in ("victim", "victim-2"):
        first = evidence.attempts[found[case].id][0].error
        assert (first.type, first.status) == ("DeviceUnavailable", "infra")
        assert "no answer in time" in first.message
    assert half == [], "nothing partial under a final name"
    assert {job.case: checks.verdict(job, evidence) for job in evidence.jobs} == {
        "victim": "pass", "victim-2": "infra", "after": "infra", "other": "pass",
    }  # fmt: skip
    assert record.state is DeviceState.QUARANTINED
    assert f"{VICTIMS} is quarantined" in found["after"].error.message
    assert found["other"].finished < found["victim"].finished, "another device does not wait for this one"


@pytest.mark.adb
def test_d7_however_often_another_adb_ends_our_server_each_job_is_repeated_once_and_no_device_is_blamed(phones):
    cases = ("victim", "victim-2", "victim-3")

    def replace(world: World, case: str) -> None:
        adb(world).replace_server()
        world.let_go("running", case)

    with World("adb", phones, jobs=tuple((case, VICTIMS, at) for at, case in enumerate(cases))) as world:
        evidence = harassed(world, "running", cases, replace)
        with world.store.read() as session:
            record = record_of(session, VICTIMS, world.store.clock())
    assert outcomes(evidence) == {case: ["error", "done"] for case in cases}
    assert {checks.verdict(job, evidence) for job in evidence.jobs} == {"pass"}
    for job in evidence.jobs:
        voided = evidence.attempts[job.id][0].error
        assert (voided.type, voided.status) == ("AdbServerReplaced", "infra")
        versions = r"1\.0\.41 \(.*\) before, (1\.0\.32|1\.0\.41 \(.*\), started anew) now"
        assert re.search(f"the adb server was replaced in the middle: {versions}", voided.message)
    checks.every_job_ends_once(evidence)
    checks.no_late_write(evidence)
    assert (record.state, record.failures) == (DeviceState.READY, 0), "it is not the device's fault"


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
