"""Sweeps: each job once, whatever dies in between."""

import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.contract.errors import InfraError, RunCancelled, UsageError
from farm.jobs import JobError, JobSpec, JobStatus, Priority, RunSpec, RunSummary
from farm.store import Store, create_run, jobs_of, run_status
from farm.store.jobs import RUN_STALE_SECONDS, finish_run, touch_run
from farm.store.runs import cancel_run, find_run, list_runs
from farm.store.transitions import claim, fail, finish, recover
from farm.sweeps import SAME_NIGHT_SECONDS, SweepRuns, begin, end, interrupted, resume

HERE, THERE = "lab1/a", "lab2/b"
REQUEST = {"suites": ["smoke"], "engines": ["refrt"]}
PROGRAM = Path(__file__).parent / "programs" / "sweep.py"
CRASH = JobError(type="RunnerCrashed", message="it died", status="crashed")
INFRA = JobError(type="DeviceUnavailable", message="gone", status="infra")


def specs(*contents):
    return [JobSpec(case=content, device=f"d{content}", content=content) for content in contents]


class Runs(SweepRuns):
    """Ends each job as ``how`` says, in the store and without workers."""

    def __init__(self, store, sweep, how):
        super().__init__(store, sweep, self._end_all)
        self._how = how
        self.ran = []

    def _end_all(self, run_id):
        for job in jobs_of(self._store, run_id):
            self.ran.append(job.case)
            how = self._how.get(job.case)
            while (taken := claim(self._store, job.id, "w", 10)) is None:
                self._store.clock.now += 1  # a device that failed is left alone for a while
                touch_run(self._store, run_id, "me")
            if how is None:
                finish(self._store, taken, {"by": run_id})
            else:
                fail(self._store, taken, how, retry=False)
        finish_run(self._store, run_id, "done")
        return RunSummary(run_id=run_id, seconds=1.0, jobs=jobs_of(self._store, run_id))


def test_a_sweep_is_planned_at_the_lowest_priority_and_its_runs_know_it(store):
    sweep = begin(store, HERE, "lockstep sweep", REQUEST)
    assert (sweep.kind, sweep.status, sweep.priority, sweep.sweep) == ("sweep", "open", Priority.NIGHTLY, sweep.id)
    runs = Runs(store, sweep, {})
    runs.drive(specs("a", "b"))
    (part,) = [run for run in list_runs(store, sweep=sweep.id) if run.id != sweep.id]
    assert (part.kind, part.priority, part.sweep, part.total) == ("sweep", Priority.NIGHTLY, sweep.id, 2)


def test_only_what_has_no_answer_runs_again(store):
    sweep = begin(store, HERE, "c", REQUEST)
    first = Runs(store, sweep, {"crash": CRASH, "infra": INFRA})
    first.drive(specs("good", "crash", "infra"))
    assert [job.case for job in first.missing(specs("good", "crash", "infra", "new"))] == ["infra", "new"]
    again = Runs(store, find_run(store, sweep.id), {})
    again.drive(specs("good", "crash", "infra", "new"))
    assert sorted(again.ran) == ["infra", "new"]
    assert again.taken_over == 2
    found = {job.case: job.status for job in again.summary(specs("good", "crash", "infra", "new")).jobs}
    assert found == {"good": "done", "crash": "failed", "infra": "done", "new": "done"}
    again.drive(specs("good"))
    assert sorted(again.ran) == ["infra", "new"], "nothing was missing: no run without jobs"


def test_two_jobs_of_the_same_content_run_once_and_both_have_the_answer(store):
    sweep = begin(store, HERE, "c", REQUEST)
    twins = [JobSpec(case=case, device="d", content="same") for case in ("one", "two")]
    runs = Runs(store, sweep, {})
    runs.drive(twins)
    assert runs.ran == ["one"]
    assert [(job.case, job.status) for job in runs.summary(twins).jobs] == [("one", "done"), ("two", "done")]


def test_jobs_of_other_sweeps_do_not_count(store):
    other = begin(store, HERE, "c", REQUEST)
    Runs(store, other, {}).drive(specs("a"))
    runs = Runs(store, begin(store, HERE, "c", REQUEST, fresh=True), {})
    runs.drive(specs("a"))
    assert runs.ran == ["a"]


def test_the_same_sweep_of_the_same_night_is_gone_on_with_unless_it_is_done(store, clock):
    sweep = begin(store, HERE, "c", REQUEST)
    assert begin(store, HERE, "c", REQUEST | {"suites": ["other"]}).id != sweep.id
    assert begin(store, HERE, "c", REQUEST).id == sweep.id
    clock.now += SAME_NIGHT_SECONDS + 1
    assert begin(store, HERE, "c", REQUEST).id != sweep.id
    assert find_run(store, sweep.id).status == "abandoned"
    assert resume(store, HERE, sweep.id).status == "open", "asked for by name it is still there"
    end(store, resume(store, HERE, sweep.id), report="r")
    assert (find_run(store, sweep.id).status, find_run(store, sweep.id).payload["report"]) == ("done", "r")


def test_going_on_abandons_what_a_dead_command_left(store):
    sweep = begin(store, HERE, "c", REQUEST)
    runs = SweepRuns(store, sweep, lambda run_id: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runs.drive(specs("a", "b"))
    (part,) = [run.id for run in list_runs(store, sweep=sweep.id) if run.id != sweep.id]
    taken = claim(store, jobs_of(store, part)[0].id, "w", 10)
    assert resume(store, HERE, part[-6:]).id == sweep.id, "a part leads to its sweep"
    assert run_status(store, part) == "abandoned"
    assert {job.status for job in jobs_of(store, part)} == {JobStatus.CANCELLED}
    with pytest.raises(InfraError):
        finish(store, taken, {})
    assert [job.case for job in runs.missing(specs("a", "b"))] == ["a", "b"]


def test_an_open_sweep_is_not_abandoned_while_it_builds(store, clock):
    sweep = begin(store, HERE, "c", REQUEST)
    clock.now += 3600
    assert recover(store) == []
    assert find_run(store, sweep.id).status == "open"


def test_what_cannot_be_resumed_is_told(store):
    with pytest.raises(UsageError, match="no sweep is unfinished"):
        resume(store, HERE, None)
    gate = create_run(store, RunSpec(suite="s", engine="e", command="c"), specs("a"))
    with pytest.raises(UsageError, match="is no sweep, but a gate"):
        resume(store, HERE, gate)


def test_a_cancelled_sweep_ends_its_run_and_is_not_gone_on_with(store):
    sweep = begin(store, HERE, "c", REQUEST)
    runs = SweepRuns(store, sweep, lambda run_id: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runs.drive(specs("a", "b"))
    assert cancel_run(store, sweep.id, "ann", "enough") == 2
    with pytest.raises(RunCancelled, match="by ann: enough"):
        runs.drive(specs("c"))
    with pytest.raises(RunCancelled):
        resume(store, HERE, sweep.id)
    with pytest.raises(UsageError, match="no sweep is unfinished"):
        resume(store, HERE, None)


def test_a_host_leaves_the_living_sweep_of_another_alone(store, clock):
    there = begin(store, THERE, "c", REQUEST)
    runs = Runs(store, there, {})
    part = create_run(store, RunSpec(suite="s", engine="e", command="c", sweep=there.id), specs("a"))
    for ask in (
        lambda: begin(store, HERE, "c", REQUEST),
        lambda: resume(store, HERE, None),
        lambda: resume(store, HERE, there.id),
        lambda: resume(store, HERE, part),
    ):
        with pytest.raises(InfraError, match=f"sweep {there.id} is driven from lab2, seen 0 s ago"):
            ask()
    assert run_status(store, part) == "running"
    assert [job.status for job in jobs_of(store, part)] == [JobStatus.QUEUED]
    runs.check()


def test_a_sweep_that_lasts_longer_than_a_night_is_not_given_up_while_it_is_driven(store, clock):
    long = begin(store, THERE, "c", REQUEST)
    clock.now += SAME_NIGHT_SECONDS + 1
    assert resume(store, THERE, long.id).seen == clock.now
    with pytest.raises(InfraError, match="is driven from lab2"):
        begin(store, HERE, "c", REQUEST)
    begin(store, HERE, "c", REQUEST | {"engines": ["other"]})
    assert find_run(store, long.id).status == "open"
    end(store, long)
    assert find_run(store, long.id).status == "done"


def test_who_lost_a_sweep_writes_no_more_of_it(store, clock):
    lost = begin(store, THERE, "c", REQUEST)
    runs = Runs(store, lost, {})
    runs.drive(specs("a"))
    clock.now += RUN_STALE_SECONDS
    found = begin(store, HERE, "c", REQUEST)
    assert (found.id, found.driver) == (lost.id, HERE)
    for ask in (runs.check, lambda: runs.drive(specs("b")), lambda: end(store, lost, exit_code=0)):
        with pytest.raises(InfraError, match=r"not driven from here any more.*lab1 goes on with it"):
            ask()
    assert runs.ran == ["a"]
    assert (find_run(store, lost.id).status, "exit_code" in find_run(store, lost.id).payload) == ("open", False)
    end(store, found, exit_code=3)
    assert find_run(store, lost.id).payload["exit_code"] == 3


def test_without_a_name_the_newest_sweep_that_nobody_drives_is_gone_on_with(store, clock):
    dead = begin(store, HERE, "c", REQUEST)
    clock.now += RUN_STALE_SECONDS
    living = begin(store, THERE, "c", REQUEST | {"engines": ["other"]})
    assert resume(store, "lab3/c", None).id == dead.id
    with pytest.raises(InfraError, match=f"{living.id} is driven from lab2"):
        resume(store, "lab4/d", None)


def test_only_what_the_clock_began_this_night_goes_on_by_itself(store, clock):
    nightly = begin(store, HERE, "c", REQUEST, entry="nightly")
    begin(store, HERE, "c", REQUEST | {"engines": ["by hand"]})
    begin(store, HERE, "c", REQUEST | {"engines": ["other"]}, entry="gone from the schedule")
    assert interrupted(store, ["nightly", "weekend"]).id == nightly.id
    assert interrupted(store, ["weekend"]) is None
    clock.now += SAME_NIGHT_SECONDS + 1
    assert interrupted(store, ["nightly"]) is None
    again = begin(store, HERE, "c", REQUEST, entry="nightly")
    assert interrupted(store, ["nightly"]).id == again.id
    end(store, again)
    assert interrupted(store, ["nightly"]) is None


def test_hosts_whose_clocks_strike_at_once_begin_one_sweep(store_url):
    stores = [Store(store_url).open() for _ in range(4)]
    barrier = threading.Barrier(len(stores))

    def strike(number):
        barrier.wait()
        try:
            return begin(stores[number], f"lab{number}/x", "c", REQUEST).id
        except InfraError as error:
            return error.message.partition(" is driven from")[0]

    try:
        with ThreadPoolExecutor(len(stores)) as pool:
            answers = sorted(pool.map(strike, range(len(stores))))
        (sweep,) = list_runs(stores[0])
        assert answers == sorted([sweep.id, *[f"sweep {sweep.id}"] * 3])
    finally:
        for store in stores:
            store.close()


@pytest.mark.services
def test_a_second_host_leaves_a_real_sweep_to_the_first(store_url, farm, until, monkeypatch, tmp_path):
    monkeypatch.setenv("LOCKSTEP_STORE_URL", store_url)
    hold = farm.log.with_name(farm.log.name + ".hold")
    hold.touch()
    first = sweeping(farm)
    sweep = first.stdout.readline().strip()
    until(farm.executed)
    monkeypatch.setenv("LOCKSTEP_STATE", str(tmp_path / "other"))
    second = sweeping(farm, sweep)
    assert second.wait() == 1
    assert f"sweep {sweep} is driven from" in second.stderr.read()
    hold.unlink()
    assert first.wait() == 0, first.stderr.read()
    assert sorted(done(sweep)) == sorted(f"c{i} on d{i % 3}" for i in range(12)), "each content once"
    with Store() as store:
        assert [run.status for run in list_runs(store, sweep=sweep)] == ["done", "done"]


@pytest.mark.services
def test_a_sweep_that_was_killed_again_and_again_does_each_job_once(farm, until):
    """SIGKILL of the command at several moments; then it is gone on with until its end."""
    command = sweeping(farm)
    sweep = command.stdout.readline().strip()
    rounds = random.Random(7)
    for goal in (rounds.randint(1, 3), rounds.randint(4, 6), rounds.randint(7, 9)):
        until(lambda goal=goal: len(done(sweep)) >= goal)
        os.kill(command.pid, signal.SIGKILL)
        command.wait()
        command = sweeping(farm, sweep)
    assert command.wait() == 0, command.stderr.read()
    assert sorted(done(sweep)) == sorted(f"c{i} on d{i % 3}" for i in range(12)), "each content once"
    with Store() as store:
        parts = [run for run in list_runs(store, sweep=sweep) if run.id != sweep]
        assert sorted(run.status for run in parts) == ["abandoned"] * (len(parts) - 1) + ["done"]
        assert 2 <= len(parts) <= 4, "a command that was killed at once has planned nothing"
        assert find_run(store, sweep).status == "done"


def sweeping(farm, known=None):
    words = [sys.executable, PROGRAM, str(farm.log), "12", "3", "0.3", *(["--resume", known] if known else [])]
    farm.commands.append(subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return farm.commands[-1]


def done(sweep):
    """The content of every job of the sweep that is done, in whichever run."""
    with Store() as store:
        runs = [run.id for run in list_runs(store, sweep=sweep)]
        return [job.content for run in runs for job in jobs_of(store, run) if job.status is JobStatus.DONE]
