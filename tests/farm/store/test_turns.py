"""Priorities: a free device goes to the best job that waits for it, over all runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from farm.jobs import JobSpec, JobStatus, Priority, RunSpec
from farm.store import Store, create_run, job, jobs_of
from farm.store.jobs import RUN_STALE_SECONDS, touch_run
from farm.store.models import JobRow
from farm.store.transitions import claim, finish, reserve
from farm.store.turns import awaited

TTL = 10.0


def plan(store, priority, *devices):
    jobs = [JobSpec(case=f"c{i}", device=device, position=i) for i, device in enumerate(devices)]
    run = create_run(store, RunSpec(suite="s", engine="e", command="c", priority=priority), jobs)
    return run, [entry.id for entry in jobs_of(store, run)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Priority.PULL_REQUEST, Priority.INTERACTIVE),
        (Priority.PULL_REQUEST, Priority.NIGHTLY),
        (Priority.INTERACTIVE, Priority.NIGHTLY),
    ],
)
def test_a_device_goes_to_the_better_run_whoever_asks_first(store, first, second):
    _, (late,) = plan(store, second, "d")
    _, (early, also) = plan(store, first, "d", "d")
    assert not reserve(store, [late])
    for better in (early, also):
        assert reserve(store, [better])
        taken = claim(store, better, "w", TTL)
        assert not reserve(store, [late])
        finish(store, taken, {})
    assert reserve(store, [late])


def test_a_better_job_holds_only_the_device_that_it_waits_for(store, clock):
    plan(store, Priority.PULL_REQUEST, "d")
    _, (same, other) = plan(store, Priority.NIGHTLY, "d", "e")
    assert not reserve(store, [same])
    assert reserve(store, [other])
    with store.read() as session:
        assert awaited(session, clock(), Priority.NIGHTLY, "d")
        assert not awaited(session, clock(), Priority.PULL_REQUEST, "d")
        assert not awaited(session, clock(), Priority.NIGHTLY, "e")


def test_a_job_on_its_way_gives_the_device_to_a_better_one_that_came_meanwhile(store):
    _, (worse,) = plan(store, Priority.NIGHTLY, "d")
    assert reserve(store, [worse])
    _, (better,) = plan(store, Priority.PULL_REQUEST, "d")
    assert claim(store, worse, "w", TTL) is None
    back = job(store, worse)
    assert (back.status, back.dispatched, back.attempts) == (JobStatus.QUEUED, None, 0)
    assert reserve(store, [better])
    assert claim(store, better, "w", TTL) is not None


def test_a_job_that_runs_is_not_stopped_for_a_better_one(store):
    _, (worse,) = plan(store, Priority.NIGHTLY, "d")
    taken = claim(store, worse, "w", TTL)
    _, (better,) = plan(store, Priority.PULL_REQUEST, "d")
    assert not reserve(store, [better])
    finish(store, taken, {})
    assert reserve(store, [better])


def test_equal_runs_take_turns(store):
    _, (a, a2) = plan(store, Priority.INTERACTIVE, "d", "d")
    _, (b,) = plan(store, Priority.INTERACTIVE, "d")
    for turn in (a, b, a2):
        assert reserve(store, [turn])
        finish(store, claim(store, turn, "w", TTL), {})


def test_a_run_whose_controller_died_holds_nothing(store, clock):
    plan(store, Priority.PULL_REQUEST, "d")
    clock.now += RUN_STALE_SECONDS
    run, (late,) = plan(store, Priority.NIGHTLY, "d")
    touch_run(store, run, "me")
    assert reserve(store, [late])


def test_a_job_that_may_go_again_soon_keeps_its_turn_and_one_far_away_does_not(store, clock):
    _, (better,) = plan(store, Priority.PULL_REQUEST, "d")
    _, (worse,) = plan(store, Priority.NIGHTLY, "d")
    for seconds, goes in ((0.5, False), (60.0, True)):
        with store.write() as session:
            session.get_one(JobRow, better).not_before = clock() + seconds
        assert bool(reserve(store, [worse])) == goes


def test_two_controllers_never_reserve_one_device(store_url):
    """Asked at the same moment, about jobs of two runs: exactly one gets it, on SQLite and on PostgreSQL."""
    with Store(store_url) as one, Store(store_url) as other:
        for _ in range(10):
            pairs = [(store, plan(store, Priority.INTERACTIVE, "d")[1][0]) for store in (one, other)]
            together = threading.Barrier(2)

            def ask(pair, together=together):
                together.wait()
                asked, job_id = pair
                return bool(reserve(asked, [job_id]))

            with ThreadPoolExecutor(2) as pool:
                answers = list(pool.map(ask, pairs))
            assert sorted(answers) == [False, True]
            store, winner = pairs[answers.index(True)]
            finish(store, claim(store, winner, "w", TTL), {})
            store, loser = pairs[answers.index(False)]
            finish(store, claim(store, loser, "w", TTL), {})
