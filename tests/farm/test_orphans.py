"""Runs whose controller died beside workers that live on."""

import signal

import pytest

from farm.broker import EmbeddedBroker
from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.orphans import GAP_SECONDS, SILENCE_SECONDS, Orphans
from farm.store import Store, create_run, jobs_of, run_status
from farm.store.devices import uses
from farm.store.jobs import touch_run
from farm.store.transitions import claim, reserve

LOOK_SECONDS = 3.0


class Watch:
    now = 500.0

    def __call__(self):
        return self.now


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def run_id(store):
    return create_run(store, RunSpec(suite="s", engine="e", command="c"), [JobSpec(case="c", device="d")])


def look(orphans, watch, seconds, between=lambda: None):
    """Look every three seconds for so long; what was abandoned."""
    lost = orphans.look()
    end = watch.now + seconds
    while watch.now < end:
        watch.now += LOOK_SECONDS
        between()
        lost += orphans.look()
    return lost


def test_a_run_that_nobody_drives_is_abandoned_and_its_device_free(store, watch, run_id):
    (job,) = jobs_of(store, run_id)
    assert claim(store, job.id, "w", 10.0)
    orphans = Orphans(store, watch)
    assert look(orphans, watch, SILENCE_SECONDS - LOOK_SECONDS) == []
    assert look(orphans, watch, LOOK_SECONDS) == [run_id]
    assert run_status(store, run_id) == "abandoned"
    (job,) = jobs_of(store, run_id)
    assert (job.status, job.error.message) == (
        JobStatus.CANCELLED,
        "the command that drove this run died without a word",
    )
    assert look(orphans, watch, LOOK_SECONDS) == []


def test_a_driven_run_is_left_alone_however_the_clocks_of_hosts_differ(store, clock, watch, run_id):
    def drive():
        clock.now += LOOK_SECONDS
        touch_run(store, run_id, "me")

    def jump_and_drive():
        clock.now -= 3600.0
        drive()
        clock.now += 7200.0

    orphans = Orphans(store, watch)
    assert look(orphans, watch, 3 * SILENCE_SECONDS, drive) == []
    assert look(orphans, watch, 3 * SILENCE_SECONDS, jump_and_drive) == []


def test_who_did_not_look_for_a_while_begins_anew(store, watch, run_id):
    orphans = Orphans(store, watch)
    for _ in range(3):
        assert look(orphans, watch, SILENCE_SECONDS - LOOK_SECONDS) == []
        watch.now += GAP_SECONDS  # the store was away, for the controller too
    assert look(orphans, watch, SILENCE_SECONDS) == [run_id]


@pytest.mark.services
def test_a_controller_killed_beside_the_users_own_worker_frees_its_device(farm, until, monkeypatch):
    with EmbeddedBroker(farm.state) as broker, Store() as store:
        monkeypatch.setenv("LOCKSTEP_BROKER_URL", broker.url)
        worker = farm.worker(broker.url, "impatient:record")
        command = farm.drive(jobs=2, devices=1, seconds=600)
        run_id = command.stdout.readline().strip()
        until(lambda: farm.executed("start"))
        command.send_signal(signal.SIGKILL)
        command.wait()

        def held():
            with store.read() as session:
                return uses(session, store.clock())

        until(lambda: run_status(store, run_id) == "abandoned")
        until(lambda: not held())
        assert {job.status for job in jobs_of(store, run_id)} == {JobStatus.CANCELLED}
        assert len(farm.executed("end")) == 1, "what ran on the device has stopped, and nothing was begun after it"
        other = create_run(store, RunSpec(suite="s", engine="e", command="c"), [JobSpec(case="c", device="d0")])
        (job,) = jobs_of(store, other)
        assert reserve(store, [job.id]) == {job.id}
        assert worker.poll() is None
