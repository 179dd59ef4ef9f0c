import time

import pytest

from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.store import create_run, job, jobs_of
from farm.store.clock import ClockWatch, follow_clock
from farm.store.jobs import touch_run
from farm.store.transitions import claim, finish, heartbeat, reclaim, reserve

TTL = 5.0
HOUR = 3600.0


def plan(store, *devices):
    run_id = create_run(
        store, RunSpec(suite="s", engine="e", command="c"), [JobSpec(case="c", device=d) for d in devices]
    )
    return run_id, [entry.id for entry in jobs_of(store, run_id)]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_jumps_costs_no_running_job_and_delays_no_waiting_one(store, clock, jump):
    run_id, (runs, waits) = plan(store, "a", "b")
    taken = claim(store, runs, "w", TTL)
    reserve(store, [waits])
    clock.now += jump
    follow_clock(store, run_id, jump)
    touch_run(store, run_id, "me")
    reclaim(store, run_id)
    running, waiting = job(store, runs), job(store, waits)
    assert running.status is JobStatus.RUNNING
    assert running.started == clock()
    assert waiting.not_before == waiting.dispatched == clock()
    heartbeat(store, taken, TTL)
    finish(store, taken, {})
    clock.now += TTL
    taken = claim(store, waits, "w", TTL)
    clock.now += TTL
    reclaim(store, run_id)
    assert job(store, waits).status is JobStatus.QUEUED, "a holder that went silent loses the device in time"


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_what_was_written_after_the_jump_stays(store, clock, jump):
    run_id, (one,) = plan(store, "a")
    clock.now += jump
    touch_run(store, run_id, "me")
    taken = claim(store, one, "w", TTL)
    follow_clock(store, run_id, jump)
    assert job(store, one).started == clock()
    heartbeat(store, taken, TTL)
    clock.now += TTL
    reclaim(store, run_id)
    assert job(store, one).status is JobStatus.QUEUED


def test_a_clock_that_is_only_late_does_not_jump(clock):
    clock.now = time.monotonic() + 7
    watch = ClockWatch(clock)
    clock.now = time.monotonic() + 7.9
    assert watch.jump() == 0.0
    clock.now = time.monotonic() + 8.8
    assert watch.jump() == 0.0, "slow drift is no jump however far it goes"
    clock.now -= HOUR
    assert watch.jump() == pytest.approx(-HOUR, abs=1)
    assert watch.jump() == 0.0
