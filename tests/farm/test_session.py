"""Whole runs: real Valkey, real Celery workers, real deaths."""

import os
import shutil
import signal
import threading
from itertools import pairwise

import pytest

from engine.contract.errors import InfraError
from farm import leases
from farm.jobs import JobStatus, Priority, RunSpec
from farm.store import Store, attempts_of, create_run, jobs_of, run_status

pytestmark = pytest.mark.services


def holders_overlap(lines):
    """True if two executors were inside one device at once."""
    inside = {}
    for line in lines:
        if line["what"] == "start":
            if line["device"] in inside:
                return True
            inside[line["device"]] = line["job"]
        else:
            inside.pop(line["device"], None)
    return False


def test_twelve_jobs_on_three_devices_run_once_each_in_order(farm):
    with farm.session(slots=2) as session:
        plan = [farm.job(f"c{i}", f"d{i % 3}", position=i) for i in range(12)]
        updates = []
        summary = session.run(farm.plan(session.store, *reversed(plan)), updates.append)
        assert run_status(session.store, summary.run_id) == "done"
    assert [job.status for job in summary.jobs] == [JobStatus.DONE] * 12
    assert {job.result["case"] for job in summary.jobs} == {f"c{i}" for i in range(12)}
    starts = farm.executed("start")
    assert len(starts) == 12
    for device in ("d0", "d1", "d2"):
        order = [int(line["case"][1:]) for line in starts if line["device"] == device]
        assert order == sorted(order)
    assert not holders_overlap(farm.executed())
    assert len({line["pid"] for line in starts}) == 2
    assert updates[0].ended == 0
    assert updates[-1].ended == 12


def test_a_killed_worker_costs_an_attempt_and_not_the_job(farm, until):
    with farm.session(slots=2) as session:
        run_id = farm.plan(session.store, farm.job("long", "d0", seconds=1.5), farm.job("short", "d1"))
        killed = []

        def kill_first(_update):
            mine = [line for line in farm.executed("start") if line["case"] == "long"]
            if mine and not killed:
                killed.append(mine[0]["pid"])
                os.kill(mine[0]["pid"], signal.SIGKILL)

        summary = run_with_poll(session, run_id, kill_first)
        attempts = attempts_of(session.store, summary.of("long", "d0").id)
    assert killed
    assert [attempt.outcome for attempt in attempts] == ["lost", "done"]
    assert attempts[0].token < attempts[1].token
    assert summary.of("long", "d0").status is JobStatus.DONE
    assert len([line for line in farm.executed("end") if line["case"] == "long"]) == 1
    assert "its worker died" in attempts[0].error.message


def run_with_poll(session, run_id, poll):
    """Run, calling ``poll`` from another thread until the run is over."""
    over = threading.Event()

    def watch():
        while not over.wait(0.02):
            poll(None)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        return session.run(run_id)
    finally:
        over.set()
        thread.join()


def test_a_job_that_always_kills_its_worker_ends_as_infra(farm):
    with farm.session("kill_self_always", slots=1) as session:
        summary = session.run(farm.plan(session.store, farm.job("bad", "d0")))
        attempts = attempts_of(session.store, summary.jobs[0].id)
    assert summary.jobs[0].status is JobStatus.FAILED
    assert summary.jobs[0].error.status == "infra"
    assert "its worker died" in summary.jobs[0].error.message
    assert [attempt.outcome for attempt in attempts] == ["lost"] * 3


def test_error_kinds(farm):
    cases = ["flaky-infra", "infra", "crash", "unsupported", "bug", "not-json", "fine"]
    with farm.session("fail_by_case", slots=2) as session:
        plan = [farm.job(case, f"d{i}") for i, case in enumerate(cases)]
        summary = session.run(farm.plan(session.store, *plan))
    jobs = {job.case: job for job in summary.jobs}
    assert jobs["fine"].status is jobs["flaky-infra"].status is JobStatus.DONE
    assert jobs["flaky-infra"].error is None
    assert {case: jobs[case].attempts for case in cases} == dict.fromkeys(cases, 1) | {"flaky-infra": 2, "infra": 2}
    errors = {case: jobs[case].error for case in cases if jobs[case].error}
    assert {case: (error.type, error.status) for case, error in errors.items()} == {
        "infra": ("DeviceUnavailable", "infra"),
        "crash": ("RunnerCrashed", "crashed"),
        "unsupported": ("UnsupportedError", "unsupported"),
        "bug": ("internal", "infra"),
        "not-json": ("internal", "infra"),
    }
    assert errors["infra"].message == "device d is gone"
    assert errors["infra"].hint == "plug it in"
    assert errors["infra"].fields == {"device": "d", "path": "x"}
    assert "KeyError" in errors["bug"].message
    logs = "".join(path.read_text() for path in (farm.state / "logs").iterdir())
    assert logs.count("Traceback") == 2


def test_a_job_past_its_time_ends_and_its_worker_is_free_again(farm):
    with farm.session(slots=1) as session:
        jobs = [farm.job("hangs", "d0", timeout=0.5, seconds=60), farm.job("next", "d1")]
        summary = session.run(farm.plan(session.store, *jobs))
    hung = summary.of("hangs", "d0")
    assert hung.status is JobStatus.FAILED
    assert (hung.error.type, hung.error.status) == ("JobTimeout", "infra")
    assert "no result within 0.5 s" in hung.error.message
    assert hung.attempts == 2, "as every infrastructure error is"
    assert summary.of("next", "d1").status is JobStatus.DONE


def test_a_busy_device_blocks_no_slot(farm):
    with farm.session(slots=1) as session, session.store.write() as transaction:
        leases.acquire(transaction, "taken", "somebody", 3.0, session.store.clock())
        transaction.commit()
        run_id = farm.plan(session.store, farm.job("waits", "taken", cost=99), farm.job("goes", "free", seconds=0.3))
        summary = session.run(run_id)
    assert [line["case"] for line in farm.executed("start")] == ["goes", "waits"]
    assert summary.of("waits", "taken").started >= summary.of("goes", "free").finished


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_command_dies(farm, until, number):
    command = farm.drive(jobs=4, devices=4, seconds=600)
    until(lambda: len(farm.executed("start")) == 2)
    run_id = command.stdout.readline().strip()
    kinds = ("valkey-server", "farm.valkey", "farm.worker", "sleep 600")
    assert all(farm.processes(kind) for kind in kinds)
    os.killpg(command.pid, number)  # the terminal's Ctrl-C reaches the whole foreground group
    farm.leaves_nothing()
    with Store() as store:
        assert {job.status for job in jobs_of(store, run_id)} == {JobStatus.CANCELLED}
        assert run_status(store, run_id) == ("abandoned" if number == signal.SIGKILL else "cancelled")


def test_two_commands_share_one_broker_and_the_first_to_leave_does_no_harm(farm, until):
    first = farm.drive(jobs=2, devices=2, seconds=0.3)
    second = farm.drive(jobs=10, devices=2, seconds=0.5)
    servers = set()
    while second.poll() is None:
        now = {pid for pid, _ in farm.processes("valkey-server")}
        assert len(now) <= 1
        servers |= now
        until(lambda: True)
    assert first.wait() == second.wait() == 0
    assert len(servers) == 1
    assert len(farm.executed("end")) == 12
    assert not holders_overlap(farm.executed())


def test_a_broker_that_comes_back_empty_loses_no_job(farm, until):
    with farm.session(slots=2) as session:
        run_id = farm.plan(session.store, *[farm.job(f"c{i}", f"d{i}", seconds=0.2) for i in range(8)])
        wiped = []

        def wipe(_update):
            if not wiped and len(farm.executed("end")) >= 2:
                (pid, _), *_ = farm.processes("valkey-server")
                shutil.rmtree(farm.state / "broker" / "data")
                os.kill(pid, signal.SIGKILL)
                wiped.append(pid)

        summary = run_with_poll(session, run_id, wipe)
    assert wiped
    assert {job.status for job in summary.jobs} == {JobStatus.DONE}
    assert len(farm.executed("end")) == 8


def test_a_killed_supervisor_is_replaced(farm):
    with farm.session(slots=2) as session:
        run_id = farm.plan(session.store, *[farm.job(f"c{i}", f"d{i}", seconds=0.2) for i in range(8)])
        killed = []

        def kill(_update):
            if not killed and len(farm.executed("end")) >= 2:
                (pid, _), *_ = farm.processes("farm.valkey")
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        summary = run_with_poll(session, run_id, kill)
    assert killed
    assert {job.status for job in summary.jobs} == {JobStatus.DONE}


def test_an_executor_that_cannot_be_imported_is_told(farm):
    with farm.session("absent") as session:
        run_id = farm.plan(session.store, farm.job("c", "d"))
        with pytest.raises(InfraError, match=r"the workers ended with code 2: .*next: name it as MODULE:FUNCTION"):
            session.run(run_id)
        assert jobs_of(session.store, run_id)[0].status is JobStatus.CANCELLED


def test_devices_are_never_shared_in_time(farm):
    with farm.session(slots=2) as session:
        plan = [farm.job(f"c{i}", "d0", position=i) for i in range(6)]
        session.run(farm.plan(session.store, *plan))
    assert all(a["what"] != b["what"] for a, b in pairwise(farm.executed()))


def test_a_pull_request_gets_the_device_before_the_rest_of_the_night(farm, until):
    with farm.session(slots=1) as session:
        night = [farm.job(f"night{i}", "d0", position=i, seconds=0.3) for i in range(6)]
        night_run = create_run(session.store, spec_of(Priority.NIGHTLY), night)
        driver = threading.Thread(target=session.run, args=(night_run,))
        driver.start()
        until(lambda: farm.executed("start"))
        urgent = [farm.job(f"urgent{i}", "d0", position=i) for i in range(2)]
        session.run(create_run(session.store, spec_of(Priority.PULL_REQUEST), urgent))
        driver.join()
    started = [line["case"] for line in farm.executed("start")]
    before = started[: started.index("urgent1") + 1]  # the night goes on the moment that the last one has ended
    assert before[-2:] == ["urgent0", "urgent1"]
    assert len(before) <= 4, "what ran when the pull request came is finished, and no more"
    assert len(farm.executed("end")) == 8
    assert not holders_overlap(farm.executed())


def spec_of(priority):
    return RunSpec(suite="s", engine="e", command="c", priority=priority)
