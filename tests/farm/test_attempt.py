import threading
import time

import pytest

from engine.contract.errors import InfraError, LeaseLost, StoreError
from farm import attempt
from farm.attempt import Heartbeat, run_job
from farm.health import names_of
from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.store import Store, attempts_of, create_run, job, jobs_of
from farm.store.transitions import cancel_jobs, claim


@pytest.fixture
def live(tmp_path):
    with Store(f"sqlite:///{tmp_path / 'live.db'}") as store:
        yield store


def plan(store, **spec):
    run_id = create_run(store, RunSpec(suite="s", engine="e", command="c"), [JobSpec(case="c", device="d", spec=spec)])
    return run_id, jobs_of(store, run_id)[0].id


def test_the_executor_gets_spec_and_guard(live):
    _, one = plan(live, a=1)
    seen = []

    def execute(spec, guard):
        guard()
        seen.append(spec)
        return {"ok": True}

    run_job(live, one, execute, "w")
    (spec,) = seen
    assert spec == {"a": 1, "job": one, "attempt": 1, "token": 1, "limit_seconds": 600.0}
    assert job(live, one).result == {"ok": True}
    run_job(live, one, execute, "w")  # a message that came twice
    assert len(seen) == 1


def test_a_cancelled_job_stops_at_its_guard_and_writes_nothing(live, until):
    run_id, one = plan(live)

    def execute(spec, guard):
        cancel_jobs(live, run_id, "stopped")

        def lost():
            try:
                guard()
            except LeaseLost:
                return True
            return False

        until(lost)
        guard()

    run_job(live, one, execute, "w", ttl=1.0)
    assert job(live, one).status is JobStatus.CANCELLED
    (tried,) = attempts_of(live, one)
    assert tried.outcome == "cancelled"
    assert tried.ended is not None


def test_a_lost_lease_that_is_not_ours_is_an_error_like_others(live):
    _, one = plan(live)

    def execute(spec, guard):
        raise LeaseLost("a lease of something else", hint="")

    run_job(live, one, execute, "w")
    assert job(live, one).error.type == "LeaseLost"
    assert job(live, one).status is JobStatus.QUEUED


def test_every_infrastructure_error_may_be_retried():
    retried = names_of(InfraError)
    assert {"InfraError", "DeviceUnavailable", "HostKeyChanged", "TransferError"} <= retried
    assert not {"RunnerCrashed", "internal", "MissingToolError"} & retried


def test_a_worker_that_was_stopped_while_it_took_its_lease_touches_no_device(live, monkeypatch):
    _, one = plan(live)

    def stopped(*asked):
        claimed = claim(*asked)
        time.sleep(0.4)  # SIGSTOP until the lease of 0.3 s is over
        return claimed

    touched = []

    def execute(spec, guard):
        guard()
        touched.append(spec)
        return {}

    monkeypatch.setattr(attempt, "claim", stopped)
    run_job(live, one, execute, "w", ttl=0.3)
    assert touched == []
    assert job(live, one).status is not JobStatus.DONE


def test_without_a_store_the_lease_is_lost_when_its_time_is_over(live, until, monkeypatch):
    _, one = plan(live)
    claimed = claim(live, one, "w", 1.0)

    def broken(*_):
        raise StoreError("the disk is gone", hint="")

    monkeypatch.setattr(attempt, "heartbeat", broken)
    with Heartbeat(live, claimed, 1.0, lambda: None, time.monotonic()) as pulse:
        pulse.guard()
        until(lambda: pulse._lost)
        with pytest.raises(LeaseLost):
            pulse.guard()


def test_a_heartbeat_that_hangs_in_the_store_does_not_keep_the_lease(live, until, monkeypatch):
    _, one = plan(live)
    claimed = claim(live, one, "w", 1.0)
    release = threading.Event()
    monkeypatch.setattr(attempt, "heartbeat", lambda *_: release.wait())

    def lost():
        try:
            pulse.guard()
        except LeaseLost:
            return True
        return False

    with Heartbeat(live, claimed, 1.0, lambda: None, time.monotonic()) as pulse:
        until(lost)
        release.set()


def test_an_executor_that_never_looks_is_ended(live, until, monkeypatch):
    monkeypatch.setattr(attempt, "STUCK_SECONDS", 0.1)
    run_id, one = plan(live)
    stuck = threading.Event()

    def execute(spec, guard):
        cancel_jobs(live, run_id, "stopped")
        until(stuck.is_set)
        return {}

    run_job(live, one, execute, "w", ttl=1.0, on_stuck=stuck.set)
    assert stuck.is_set()
    assert job(live, one).status is JobStatus.CANCELLED


def test_a_store_that_fails_once_does_not_cost_the_work(live, monkeypatch):
    _, one = plan(live)
    written = attempt.finish
    failures = [StoreError("disk I/O error", hint="")]

    def finish_at_last(*words):
        if failures:
            raise failures.pop()
        written(*words)

    monkeypatch.setattr(attempt, "finish", finish_at_last)
    run_job(live, one, lambda *_: {"ok": True}, "w")
    assert job(live, one).result == {"ok": True}
    assert [tried.outcome for tried in attempts_of(live, one)] == ["done"]


def test_a_store_that_refuses_a_result_for_good_is_told_and_not_asked_for_ever(live, monkeypatch):
    _, one = plan(live)

    def refuse(*_):
        raise StoreError("disk I/O error", hint="")

    monkeypatch.setattr(attempt, "finish", refuse)
    with pytest.raises(StoreError, match="disk I/O error"):
        run_job(live, one, lambda *_: {"ok": True}, "w", ttl=0.5)
    assert job(live, one).status is JobStatus.RUNNING, "its lease ends it"
