"""One bad device among good ones: real Valkey, real workers, real time."""

import os
import signal
from dataclasses import replace

import pytest

from farm.devicestates import DeviceState
from farm.jobs import JobStatus, RunSpec
from farm.store import create_run
from farm.store.devices import events_of, hold, record_of

pytestmark = pytest.mark.services
GOOD = [f"good{i}" for i in range(5)]


def state(session, name):
    with session.store.read() as reading:
        return record_of(reading, name, session.store.clock())


def plan(session, *jobs, **payload):
    return create_run(session.store, RunSpec(suite="s", engine="e", command="c", payload=payload), jobs)


def test_one_device_that_always_fails_delays_nobody_and_ends_quarantined(farm):
    """Many jobs on the bad one, and all that its failures cost the others is the time its two attempts ran."""
    with farm.session("fail_on_bad", slots=1) as session:
        jobs = [farm.job(f"c{i}", device, position=i) for i in range(4) for device in [*GOOD, "bad"]]
        summary = session.run(plan(session, *jobs, health={"backoff_seconds": 1.0}))
        bad, history = state(session, "bad"), events_of(session.store, "bad")
    ended = {job.device: [] for job in summary.jobs}
    for job in summary.jobs:
        ended[job.device].append(job)
    assert all(job.status is JobStatus.DONE for name in GOOD for job in ended[name])
    assert bad.state is DeviceState.QUARANTINED
    assert [event.after for event in history] == ["quarantined", "offline"]
    first, *rest = sorted(ended["bad"], key=lambda job: job.position)
    assert (first.error.type, first.attempts) == ("DeviceUnavailable", 2)
    assert {(job.error.type, job.error.status, job.attempts) for job in rest} == {("DeviceQuarantined", "infra", 0)}
    assert "bad is quarantined since" in rest[0].error.message
    assert "bad is gone" in rest[0].error.message
    starts = [line["device"] for line in farm.executed("start")]
    assert starts.count("bad") == 2, "one retry, and nothing once it is quarantined"
    tries = [position for position, device in enumerate(starts) if device == "bad"]
    assert tries[1] - tries[0] > 1, "the others went on while it was left alone"


def test_a_job_of_a_bad_device_is_done_by_another_unit_and_its_base_with_it(farm):
    with farm.session("fail_on_bad", slots=2) as session:
        units = {
            name: {"group": "g", "device": name} for name in ("bad", "good0")
        }  # the executors here take the device's name for its document
        head = farm.job("c", "bad")
        base = replace(farm.job("c", "bad", position=1), role="base")
        summary = session.run(plan(session, head, base, units=units))
    done = {job.role: job for job in summary.jobs}
    for role in ("head", "base"):
        assert (done[role].status, done[role].device, done[role].planned) == (JobStatus.DONE, "good0", "bad")
    assert summary.of("c", "bad", "head") == done["head"]
    assert [(tried.device, tried.outcome) for tried in done["head"].tries] == [("bad", "error"), ("good0", "done")]
    assert [tried.device for tried in done["base"].tries] == ["good0"]


def test_a_run_does_not_wait_for_a_device_that_somebody_holds(farm):
    with farm.session("fail_on_bad", slots=1) as session:
        hold(session.store, "good0", "ada", "on loan", None)
        summary = session.run(plan(session, farm.job("a", "good0"), farm.job("b", "good1")))
    held, other = summary.of("a", "good0"), summary.of("b", "good1")
    assert other.status is JobStatus.DONE
    assert (held.status, held.error.type, held.error.status) == (JobStatus.FAILED, "DeviceHeld", "infra")
    assert "set by ada: on loan" in held.error.message
    assert [line["device"] for line in farm.executed("start")] == ["good1"]


def test_a_worker_killed_in_the_middle_is_lost_once_and_the_next_holder_knows_that_it_is_later(farm, until):
    """D9: status lost, lock freed, requeued once; the token tells the device what is left from before."""
    with farm.session("fail_on_bad", slots=1) as session:
        run_id = plan(session, farm.job("c", "good0", seconds=1.0))
        killed = []

        def kill(update):
            if update.counts[JobStatus.RUNNING] and not killed:
                pid = until(lambda: farm.executed("start"))[0]["pid"]
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

        summary = session.run(run_id, kill)
        after = state(session, "good0")
    (job,) = summary.jobs
    assert killed
    assert [tried.outcome for tried in job.tries] == ["lost", "done"]
    assert job.tries[0].token < job.tries[1].token == job.result["token"]
    assert "its worker died" in job.tries[0].error.message
    assert after.state is DeviceState.READY, "a dead worker is not held against the device"
