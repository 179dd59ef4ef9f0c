import pytest

from engine.contract.errors import LeaseLost, StoreError
from farm.jobs import JobError, JobSpec, JobStatus, RunSpec
from farm.store import attempts_of, create_run, job, jobs_of, run_status
from farm.store.jobs import RUN_STALE_SECONDS, fingerprint, touch_run
from farm.store.transitions import (
    abandon_driver,
    acknowledge,
    cancel_jobs,
    claim,
    fail,
    finish,
    heartbeat,
    lose_worker,
    reclaim,
    recover,
    reserve,
    unreserve,
)

TTL = 10.0
OOPS = JobError(type="DeviceUnavailable", message="gone")


def plan(store, *devices, timeout=600.0):
    jobs = [JobSpec(case=f"c{i}", device=d, position=i, timeout=timeout) for i, d in enumerate(devices)]
    run_id = create_run(store, RunSpec(suite="s", engine="e", command="c", payload={"a": 1}), jobs)
    return run_id, [j.id for j in jobs_of(store, run_id)]


def test_a_job_goes_from_queued_to_done_once(store):
    run_id, (one,) = plan(store, "d")
    assert reserve(store, [one]) == {one}
    taken = claim(store, one, "w", TTL)
    assert (taken.attempt, taken.lease.device) == (1, "d")
    assert claim(store, one, "other", TTL) is None
    finish(store, taken, {"nan": float("inf")})
    ended = job(store, one)
    assert (ended.status, ended.result) == (JobStatus.DONE, {"nan": float("inf")})
    assert claim(store, one, "w", TTL) is None
    with pytest.raises(LeaseLost):
        finish(store, taken, {})
    assert jobs_of(store, run_id)[0] == ended


def test_a_late_writer_with_an_old_token_is_refused(store, clock):
    run_id, (one,) = plan(store, "d")
    late = claim(store, one, "slow", TTL)
    clock.now += TTL
    reclaim(store, run_id)
    clock.now += 1
    touch_run(store, run_id, "me")
    fresh = claim(store, one, "quick", TTL)
    assert fresh.lease.token > late.lease.token
    for write in (lambda: finish(store, late, {"late": 1}), lambda: fail(store, late, OOPS, retry=True)):
        with pytest.raises(LeaseLost):
            write()
    finish(store, fresh, {"fresh": 1})
    with pytest.raises(LeaseLost):
        finish(store, late, {"late": 1})
    assert job(store, one).result == {"fresh": 1}
    assert [a.outcome for a in attempts_of(store, one)] == ["lost", "done"]


def test_one_job_a_device_is_on_its_way_over_all_living_runs(store, clock):
    run_a, (a, a2) = plan(store, "d", "other")
    _, (b,) = plan(store, "d")
    assert reserve(store, [a, a2]) == {a, a2}
    assert not reserve(store, [b])
    unreserve(store, a)
    assert reserve(store, [b, "absent"]) == {b}
    clock.now += RUN_STALE_SECONDS
    touch_run(store, run_a, "me")
    assert reserve(store, [a])  # the controller of b's run is gone


def test_a_busy_device_sends_the_job_back_to_the_table(store, clock):
    _, (a,) = plan(store, "d")
    _, (b,) = plan(store, "d")
    reserve(store, [b])
    taken = claim(store, a, "w", TTL)
    assert claim(store, b, "w2", TTL) is None
    back = job(store, b)
    assert (back.status, back.dispatched, back.attempts) == (JobStatus.QUEUED, None, 0)
    assert back.not_before > clock()
    finish(store, taken, {})
    assert claim(store, b, "w2", TTL) is not None


def test_errors_are_retried_once_if_they_may_be(store, clock):
    _, (a, b) = plan(store, "d", "e")
    fail(store, claim(store, a, "w", TTL), OOPS, retry=True)
    assert (job(store, a).status, job(store, a).error) == (JobStatus.QUEUED, OOPS)
    assert claim(store, a, "w", TTL) is None  # the device is left alone for a while
    clock.now = job(store, a).not_before
    fail(store, claim(store, a, "w", TTL), OOPS, retry=True)
    assert job(store, a).status is JobStatus.FAILED
    fail(store, claim(store, b, "w", TTL), OOPS, retry=False)
    assert job(store, b).status is JobStatus.FAILED


def test_lost_attempts_have_an_end(store):
    _, (a,) = plan(store, "d")
    for _ in range(3):
        assert claim(store, a, "w", TTL)
        lose_worker(store, "another")
        assert job(store, a).status is JobStatus.RUNNING
        lose_worker(store, "w")
    assert job(store, a).status is JobStatus.FAILED
    assert "its worker died" in job(store, a).error.message


def test_time_runs_out_and_the_worker_can_say_that_it_stopped(store, clock):
    run_id, (a,) = plan(store, "d", timeout=15)
    taken = claim(store, a, "w", TTL)
    clock.now += 9
    heartbeat(store, taken, TTL)
    clock.now += 6
    reclaim(store, run_id)
    assert job(store, a).error.message == "c0 on d: no result within 15 s"
    with pytest.raises(LeaseLost):
        heartbeat(store, taken, TTL)
    assert attempts_of(store, a)[0].ended is None
    acknowledge(store, taken)
    assert attempts_of(store, a)[0].ended == clock()


def test_a_job_whose_time_ran_out_is_tried_once_more(store, clock):
    run_id, (a,) = plan(store, "d", timeout=4)
    for number in (1, 2):
        clock.now = max(clock.now, job(store, a).not_before)
        taken = claim(store, a, "w", TTL)
        assert taken.attempt == number
        clock.now += 4
        reclaim(store, run_id)
        if number == 1:
            assert job(store, a).status is JobStatus.QUEUED
            clock.now += 0.5
            assert claim(store, a, "v", TTL) is None, "a program may still run there"
        with pytest.raises(LeaseLost):
            finish(store, taken, {})
        acknowledge(store, taken)
    ended = job(store, a)
    assert (ended.status, ended.error.type) == (JobStatus.FAILED, "JobTimeout")
    assert [tried.outcome for tried in attempts_of(store, a)] == ["timeout", "timeout"]


def test_cancelling_ends_every_job_and_frees_the_device_once_its_worker_has_stopped(store):
    run_id, (a, b) = plan(store, "d", "e")
    taken = claim(store, a, "w", TTL)
    cancel_jobs(store, run_id, "the run was stopped")
    assert {j.status for j in jobs_of(store, run_id)} == {JobStatus.CANCELLED}
    assert job(store, b).error.message == "the run was stopped"
    with pytest.raises(LeaseLost):
        finish(store, taken, {})
    with pytest.raises(LeaseLost):
        heartbeat(store, taken, TTL)
    _, (other,) = plan(store, "d")
    assert claim(store, other, "w", TTL) is None, "a program may still run there"
    acknowledge(store, taken)
    assert claim(store, other, "w", TTL)


def test_a_worker_that_never_says_that_it_stopped_keeps_the_device_for_its_lease_at_most(store, clock):
    run_id, (a,) = plan(store, "d")
    assert claim(store, a, "w", TTL)
    cancel_jobs(store, run_id, "the run was stopped")
    _, (other,) = plan(store, "d")
    clock.now += TTL - 0.1
    assert claim(store, other, "v", TTL) is None
    clock.now += 0.1
    assert claim(store, other, "v", TTL)


def test_a_worker_that_dies_while_it_stops_frees_its_device(store):
    run_id, (a,) = plan(store, "d")
    assert claim(store, a, "w", TTL)
    cancel_jobs(store, run_id, "the run was stopped")
    lose_worker(store, "w")
    (tried,) = attempts_of(store, a)
    assert (tried.outcome, tried.ended) == ("cancelled", store.clock())
    _, (other,) = plan(store, "d")
    assert claim(store, other, "v", TTL)


def test_runs_whose_controller_died_are_abandoned(store, clock):
    old, (a, _) = plan(store, "d", "e")
    clock.now += RUN_STALE_SECONDS
    assert claim(store, a, "w", TTL) is None  # nobody would read the result
    new, _ = plan(store, "d")
    assert recover(store) == [old]
    assert (run_status(store, old), run_status(store, new)) == ("abandoned", "running")
    assert {j.status for j in jobs_of(store, old)} == {JobStatus.CANCELLED}
    assert "died without a word" in job(store, a).error.message
    touch_run(store, new, "me")
    assert abandon_driver(store, "somebody") == []
    assert abandon_driver(store, "me") == [new]


def test_the_fingerprint_changes_with_every_transition(store, clock):
    run_id, (a,) = plan(store, "d")
    seen = [fingerprint(store, run_id)]
    steps = [lambda: reserve(store, [a]), lambda: taken.append(claim(store, a, "w", TTL))]
    steps += [lambda: fail(store, taken[0], OOPS, retry=True)]
    steps += [lambda: setattr(clock, "now", clock.now + 9) or taken.append(claim(store, a, "w", TTL))]
    steps += [lambda: finish(store, taken[1], {})]
    taken = []
    for step in steps:
        step()
        seen.append(fingerprint(store, run_id))
    assert len(set(seen)) == len(seen)


def test_what_is_not_there_is_told(store):
    with pytest.raises(StoreError, match="job x is not in the store"):
        job(store, "x")
    with pytest.raises(StoreError, match="run x is not in the store"):
        run_status(store, "x")
