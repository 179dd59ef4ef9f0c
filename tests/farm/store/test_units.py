import pytest

from farm.jobs import JobError, JobSpec, JobStatus, Role, RunSpec
from farm.store import create_run, job, jobs_of
from farm.store.devices import hold
from farm.store.transitions import claim, fail, finish, heartbeat, lose_worker, reclaim

TTL = 10.0
GONE = JobError(type="DeviceUnavailable", message="gone")


def plan(store, *wanted, group=("a", "b"), timeout=600.0, **units):
    known = {name: {"group": "pair" if name in group else name, "device": {"name": name}, **units} for name in "abc"}
    jobs = [
        JobSpec(case=case, device=device, role=role, position=i, timeout=timeout, spec={"device": {"name": device}})
        for i, (case, device, role) in enumerate(wanted)
    ]
    run_id = create_run(store, RunSpec(suite="s", engine="e", command="c", payload={"units": known}), jobs)
    found = {(entry.case, entry.role): entry.id for entry in jobs_of(store, run_id)}
    return run_id, [found[case, role] for case, _, role in wanted]


def test_a_head_job_goes_on_on_another_unit_and_takes_its_base_along(store, clock):
    _, (head, base) = plan(store, ("x", "a", Role.HEAD), ("x", "a", Role.BASE), queue="far-host")
    fail(store, claim(store, head, "w", TTL), GONE, retry=True)
    for one in (head, base):
        moved = job(store, one)
        assert (moved.device, moved.planned, moved.spec["device"]) == ("b", "a", {"name": "b"})
    clock.now = job(store, head).not_before
    assert clock.now < clock() + 1, "a ready unit need not wait for the one that failed"
    finish(store, claim(store, head, "w", TTL), {})
    done = job(store, head)
    assert [(tried.device, tried.outcome) for tried in done.tries] == [("a", "error"), ("b", "done")]
    assert done.tries[0].error == GONE


def test_a_job_whose_time_ran_out_goes_on_on_another_unit_and_each_unit_is_freed_by_its_own_worker(store, clock):
    run_id, (head,) = plan(store, ("x", "a", Role.HEAD), timeout=5.0)
    assert claim(store, head, "slow", TTL)
    clock.now += 5
    reclaim(store, run_id)
    assert (job(store, head).status, job(store, head).device) == (JobStatus.QUEUED, "b")
    clock.now = job(store, head).not_before
    second = claim(store, head, "quick", TTL)
    lose_worker(store, "slow")
    heartbeat(store, second, TTL)
    finish(store, second, {})
    assert [(tried.device, tried.outcome) for tried in job(store, head).tries] == [("a", "timeout"), ("b", "done")]


def test_without_another_unit_the_job_waits_for_its_own(store):
    _, (head,) = plan(store, ("x", "c", Role.HEAD))
    fail(store, claim(store, head, "w", TTL), GONE, retry=True)
    assert (job(store, head).device, job(store, head).status) == ("c", JobStatus.QUEUED)


@pytest.mark.parametrize("role", [Role.BASE, Role.CONFIRM])
def test_what_belongs_to_one_unit_stays_there(store, role):
    _, (one,) = plan(store, ("x", "a", role))
    fail(store, claim(store, one, "w", TTL), GONE, retry=True)
    assert job(store, one).device == "a"


def test_a_unit_that_somebody_holds_takes_nothing_over(store):
    hold(store, "b", "ada", "mine", None)
    _, (head,) = plan(store, ("x", "a", Role.HEAD))
    fail(store, claim(store, head, "w", TTL), GONE, retry=True)
    assert job(store, head).device == "a"


def test_jobs_planned_for_a_held_device_move_or_end_and_never_wait(store):
    hold(store, "a", "ada", "debugging", None)
    hold(store, "c", "ada", "debugging", None)
    run_id, jobs = plan(store, ("x", "a", Role.HEAD), ("x", "a", Role.BASE), ("y", "c", Role.HEAD))
    reclaim(store, run_id)
    x, base, y = (job(store, one) for one in jobs)
    assert (x.device, x.planned, base.device) == ("b", "a", "b")
    assert x.moved.endswith("set by ada: debugging")
    assert (y.status, y.error.type, y.error.status) == (JobStatus.FAILED, "DeviceHeld", "infra")
    assert "set by ada: debugging" in y.error.message
    assert y.error.hint == "ask them, or `lockstep devices release c`"


def test_the_unit_with_least_to_do_takes_over(store):
    wanted = [("x", "a", Role.HEAD), ("y", "b", Role.HEAD)]
    _, (head, _) = plan(store, *wanted, group=("a", "b", "c"))
    fail(store, claim(store, head, "w", TTL), GONE, retry=True)
    assert job(store, head).device == "c"


def test_an_error_of_the_engine_moves_nothing(store):
    _, (head,) = plan(store, ("x", "a", Role.HEAD))
    broker = JobError(type="BrokerError", message="away")
    fail(store, claim(store, head, "w", TTL), broker, retry=True)
    assert job(store, head).device == "a"
