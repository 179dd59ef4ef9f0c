import pytest

from engine.contract.errors import RunCancelled, UsageError
from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.store import create_run, jobs_of, run_status
from farm.store.runs import cancel_run, check_cancelled, find_run, list_runs, note_run
from farm.store.transitions import claim, finish


def plan(store, *devices, **facts):
    spec = RunSpec(suite="s", engine="e", command="c", **facts)
    return create_run(store, spec, [JobSpec(case="c", device=device) for device in devices])


def test_runs_are_listed_newest_first_with_their_numbers(store, clock):
    old = plan(store, "d", "e", kind="sweep", priority=9, owner="ann@lab", sweep="s1")
    clock.now += 60
    new = plan(store, "d")
    listed = list_runs(store)
    assert [run.id for run in listed] == [new, old]
    assert (listed[1].kind, listed[1].priority, listed[1].owner, listed[1].sweep) == ("sweep", 9, "ann@lab", "s1")
    assert listed[1].counts == {JobStatus.QUEUED: 2}
    assert (listed[1].ended, listed[1].total) == (0, 2)
    assert "@" in listed[0].owner, "whoever says nothing is this user on this host"
    assert [run.id for run in list_runs(store, limit=1)] == [new]
    assert [run.id for run in list_runs(store, sweep="s1")] == [old]


def test_ended_runs_are_not_living(store):
    run_id = plan(store, "d")
    taken = claim(store, jobs_of(store, run_id)[0].id, "w", 10)
    finish(store, taken, {})
    assert find_run(store, run_id).ended == 1
    cancel_run(store, run_id, "ann", "enough")
    assert list_runs(store, living=True) == []


def test_a_run_is_found_by_a_part_of_its_id(store, clock):
    first = plan(store, "d")
    clock.now += 3600
    second = plan(store, "d")
    for name in (second, second[-6:], "latest"):
        assert find_run(store, name).id == second
    assert find_run(store, first[:15]).id == first
    with pytest.raises(UsageError, match="fits several runs"):
        find_run(store, "1970")
    for name in ("nothing", "%", "a_b", "", "x" * 65):
        with pytest.raises(UsageError, match=r"no run 'nothing' in the store|is no id of a run"):
            find_run(store, name)


def test_who_cancelled_and_why_is_kept_with_the_run_and_with_each_job(store):
    run_id = plan(store, "d", "e")
    check_cancelled(store, run_id)
    note_run(store, run_id, report="out/x")
    assert claim(store, jobs_of(store, run_id)[0].id, "w", 10)
    assert cancel_run(store, run_id, "ann@lab", "phone needed") == 2
    assert run_status(store, run_id) == "cancelled"
    assert {job.error.message for job in jobs_of(store, run_id)} == {"cancelled by ann@lab: phone needed"}
    told = find_run(store, run_id).payload
    assert (told["cancelled"]["by"], told["cancelled"]["reason"], told["report"]) == (
        "ann@lab",
        "phone needed",
        "out/x",
    )
    with pytest.raises(RunCancelled, match="was cancelled by ann@lab: phone needed") as caught:
        check_cancelled(store, run_id)
    assert caught.value.exit_code == 3


def test_what_has_ended_cannot_be_cancelled(store):
    run_id = plan(store, "d")
    cancel_run(store, run_id, "ann", "enough")
    with pytest.raises(UsageError, match="is cancelled: nothing to cancel"):
        cancel_run(store, run_id, "bob", "me too")
    with pytest.raises(UsageError, match="is not there"):
        cancel_run(store, "x", "bob", "me too")
    assert find_run(store, run_id).payload["cancelled"]["by"] == "ann"
