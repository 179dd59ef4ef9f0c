import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.contract.errors import UsageError
from farm.hosts import HostWatch, host_queue, how_to_serve, who
from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.store import create_run, jobs_of
from farm.store.devices import uses
from farm.store.transitions import claim, finish, reserve
from farm.store.workers import BEAT_SECONDS, STALE_SECONDS, beat, join, leave, present

LAB = host_queue("lab1")


def served(store):
    return {worker.queue for worker in present(store) if worker.slots}


def test_a_worker_host_is_there_from_joining_to_leaving(store):
    join(store, "1@a", LAB, alone=True)
    (worker,) = present(store)
    assert (worker.name, worker.queue, worker.slots) == ("1@a", LAB, 0)
    assert "@" in worker.owner
    beat(store, "1@a", LAB, 4, alone=True)
    assert served(store) == {LAB}
    beat(store, "1@a", LAB, 0, alone=True)
    assert served(store) == set()
    leave(store, "1@a")
    assert present(store) == ()


def test_one_that_says_nothing_for_long_is_not_there(store, clock):
    join(store, "1@a", LAB, alone=True)
    for _ in range(20):
        clock.now += BEAT_SECONDS
        beat(store, "1@a", LAB, 1, alone=True)
    assert served(store) == {LAB}
    clock.now += STALE_SECONDS
    assert served(store) == set()


@pytest.mark.parametrize("first", [join, lambda *asked, alone: beat(*asked, 1, alone=alone)], ids=["join", "beat"])
def test_of_many_that_come_at_once_for_one_device_host_one_gets_it(store, first):
    start = threading.Barrier(12)

    def come(number: int) -> bool:
        start.wait(60)
        try:
            first(store, f"{number}@host", LAB, alone=True)
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(come, range(12))) == 1
    assert len(present(store)) == 1


def test_a_device_host_is_served_once_and_a_common_queue_by_many(store, clock):
    join(store, "1@a", LAB, alone=True)
    with pytest.raises(UsageError, match=r"lockstep.host.lab1 is served already, by 1@a(.|\n)*next: give this host"):
        join(store, "2@b", LAB, alone=True)
    clock.now += STALE_SECONDS
    join(store, "2@b", LAB, alone=True)
    assert [worker.name for worker in present(store)] == ["2@b"]
    for name in ("3@a", "4@b"):
        join(store, name, "lockstep", alone=False)
    assert len(present(store)) == 3


def test_joining_again_replaces_the_row(store):
    join(store, "1@a", LAB, alone=True)
    beat(store, "1@a", LAB, 1, alone=True)
    join(store, "1@a", LAB, alone=True)
    assert [worker.slots for worker in present(store)] == [0]


def test_one_that_was_forgotten_while_it_could_not_say_anything_is_there_again_with_its_next_beat(store, clock):
    for name in ("1@a", "2@b"):
        join(store, name, "lockstep", alone=False)
    clock.now += STALE_SECONDS
    join(store, "3@c", "lockstep", alone=False)
    leave(store, "3@c")
    assert present(store) == ()
    beat(store, "1@a", "lockstep", 2, alone=False)
    assert [(worker.name, worker.slots) for worker in present(store)] == [("1@a", 2)]


def test_a_device_host_whose_name_was_taken_meanwhile_is_told(store, clock):
    join(store, "1@a", LAB, alone=True)
    clock.now += STALE_SECONDS
    join(store, "2@b", LAB, alone=True)
    with pytest.raises(UsageError, match=r"lockstep.host.lab1 is served already, by 2@b"):
        beat(store, "1@a", LAB, 1, alone=True)
    assert [worker.name for worker in present(store)] == ["2@b"]


def plan(store):
    jobs = [JobSpec(case="here", device="d"), JobSpec(case="there", device="e", queue=LAB)]
    return create_run(store, RunSpec(suite="s", engine="e", command="c", owner="ada@lab"), jobs)


def test_jobs_of_a_host_that_nobody_serves_say_so_and_end_as_infra(store):
    run = plan(store)
    (note,) = HostWatch(store, run, None, wait=60).look(jobs_of(store, run))
    assert note == (
        "no worker serves host lab1: start `lockstep worker --name lab1` there, with the same broker and store"
    )
    assert {entry.status for entry in jobs_of(store, run)} == {JobStatus.QUEUED}
    HostWatch(store, run, None, wait=0).look(jobs_of(store, run))
    here, there = jobs_of(store, run)
    assert here.status is JobStatus.QUEUED
    assert (there.status, there.error.type, there.error.status) == (JobStatus.FAILED, "HostUnserved", "infra")
    assert there.error.message == "no worker serves host lab1; waited 0 s"
    assert there.error.hint.startswith("start `lockstep worker --name lab1` there")


def test_a_worker_that_comes_in_time_ends_the_wait(store, clock):
    run = plan(store)
    watch = HostWatch(store, run, None, wait=0.0)
    beat(store, "1@a", LAB, 1, alone=True)
    assert watch.look(jobs_of(store, run)) == ()
    assert {entry.status for entry in jobs_of(store, run)} == {JobStatus.QUEUED}
    clock.now += STALE_SECONDS
    assert watch.look(jobs_of(store, run)) != ()


def sent_there(store, run):
    """The job of the other host, sent."""
    job = next(job for job in jobs_of(store, run) if job.queue == LAB)
    reserve(store, [job.id])
    return [entry for entry in jobs_of(store, run) if entry.queue == LAB]


def test_a_worker_without_the_broker_is_told_apart_from_none_and_as_little_waited_for(store):
    run = plan(store)
    join(store, "1@a", LAB, alone=True)
    HostWatch(store, run, None, wait=0).look(jobs_of(store, run))
    here, there = jobs_of(store, run)
    assert here.status is JobStatus.QUEUED
    assert there.error.type == "HostUnserved"
    assert there.error.message == "the worker of host lab1 took no job; waited 0 s"
    assert there.error.hint == "look at its log, and give it the broker of this command, then run again"


def test_a_worker_that_says_it_takes_messages_and_takes_none_is_not_waited_for_either(store):
    run = plan(store)
    beat(store, "1@a", LAB, 1, alone=True)
    watch = HostWatch(store, run, None, wait=0)
    assert watch.look(jobs_of(store, run)) == (), "nothing was sent yet"
    sent = sent_there(store, run)
    assert watch.look(jobs_of(store, run), sent) == (
        "the worker of host lab1 takes no job: look at its log, and give it the broker of this command",
    )
    assert jobs_of(store, run)[1].error.type == "HostUnserved"


def test_a_message_may_wait_as_long_as_its_host_is_busy_or_gives_jobs_back(store):
    run, other = plan(store), plan(store)
    beat(store, "1@a", LAB, 1, alone=True)
    watch = HostWatch(store, run, None, wait=0)
    sent = sent_there(store, run)
    theirs = next(job for job in jobs_of(store, other) if job.queue == LAB)
    busy = claim(store, theirs.id, "w", 10.0)
    assert watch.look(jobs_of(store, run), sent) == ()
    assert claim(store, sent[0].id, "w", 10.0) is None, "its device is taken"
    finish(store, busy, {})
    assert watch.look(jobs_of(store, run), sent_there(store, run)) == ()
    assert watch.look(jobs_of(store, run), sent_there(store, run)) != (), "now nobody takes it any more"


def test_without_a_broker_nobody_is_to_blame(store):
    run = plan(store)
    HostWatch(store, run, None, wait=0, reached=lambda: False).look(jobs_of(store, run))
    assert {entry.status for entry in jobs_of(store, run)} == {JobStatus.QUEUED}


def test_the_runs_own_queue_is_watched_when_it_is_the_users_workers_that_serve_it(store):
    run = plan(store)
    watch = HostWatch(store, run, "lockstep", wait=60)
    assert [note.partition(":")[0] for note in watch.look(jobs_of(store, run))] == [
        "no worker serves queue lockstep",
        "no worker serves host lab1",
    ]
    assert how_to_serve("lockstep").startswith("start `lockstep worker` there")
    assert who(LAB) == "host lab1"


def test_jobs_that_ended_wait_for_nobody(store):
    run = plan(store)
    for entry in jobs_of(store, run):
        finish(store, claim(store, entry.id, "w", 10.0), {})
    assert HostWatch(store, run, "lockstep", wait=0).look(jobs_of(store, run)) == ()


def test_who_holds_a_device_is_known_by_worker_run_and_owner(store, clock):
    def held():
        with store.read() as session:
            return uses(session, clock())

    run = plan(store)
    assert held() == {}
    taken = claim(store, jobs_of(store, run)[0].id, "7@lab/lab1", 10.0)
    use = held()["d"]
    assert (use.holder, use.run, use.owner, use.case) == ("7@lab/lab1", run, "ada@lab", "here")
    finish(store, taken, {})
    assert held() == {}
