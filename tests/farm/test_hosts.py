"""Workers of the user's own whose broker is not there, or not ours: real brokers, real slots."""

import os
import signal
import socket

import pytest

from engine.contract.errors import BrokerError
from farm.broker import EmbeddedBroker, ExternalBroker
from farm.controller import Controller
from farm.hosts import host_queue
from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.store import Store, create_run, jobs_of
from farm.store.jobs import heartbeats
from farm.store.workers import present
from farm.tasks import Publisher

pytestmark = pytest.mark.services

LAB = host_queue("lab1")


@pytest.fixture
def broker(farm):
    with EmbeddedBroker(farm.state) as broker:
        yield broker


def serving(store):
    return [worker for worker in present(store) if worker.slots]


def plan(farm, store):
    job = farm.job("c", "d")
    spec = JobSpec(case="c", device="d", queue=LAB, spec=job.spec)
    return create_run(store, RunSpec(suite="s", engine="e", command="c"), [spec])


@pytest.fixture
def silent():
    """A broker that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://:x@127.0.0.1:{server.getsockname()[1]}/0"


@pytest.mark.parametrize("away", ["refuses", "silent"])
def test_a_worker_whose_broker_does_not_answer_says_so_and_ends(farm, silent, away):
    worker = farm.worker("redis://127.0.0.1:1/0" if away == "refuses" else silent, queue=LAB)
    assert worker.wait() == 3
    told = (farm.state / "worker.log").read_text()
    assert "error: LOCKSTEP_BROKER_URL: the broker does not answer" in told
    assert "next: start it or mend its URL, then start this worker again" in told
    assert "Traceback" not in told
    with Store() as store:
        assert present(store) == ()


def test_a_broker_that_fell_silent_does_not_keep_who_sends_a_job(silent):
    with pytest.raises(BrokerError, match="the broker does not take a job"):
        Publisher(silent, "q").send("job")


def test_a_run_whose_broker_fell_silent_shows_that_it_lives_until_it_gives_up(farm, silent, monkeypatch):
    monkeypatch.setattr("farm.controller.BROKER_GIVE_UP_SECONDS", 1.0)
    seen = []

    class Watched(ExternalBroker):
        def ensure(self):
            seen.append(heartbeats(store)[run_id])
            super().ensure()

    with Store() as store:
        run_id = farm.plan(store, *[farm.job(f"c{i}", f"d{i}") for i in range(8)])
        with pytest.raises(BrokerError, match="the broker does not answer"):
            Controller(store, Watched(silent), queue="lockstep", slots=None).run(run_id)
        assert {job.status for job in jobs_of(store, run_id)} == {JobStatus.CANCELLED}
    assert len(seen) == len(set(seen)) == 2, "however many jobs there are to send"


def test_a_worker_at_another_broker_hangs_no_run(farm, broker, until):
    with EmbeddedBroker(farm.state / "other") as other, Store() as store:
        farm.worker(other.url, queue=LAB)
        until(lambda: serving(store))
        notes = set()
        controller = Controller(store, broker, queue="lockstep", slots=None, host_wait=3.0)
        (job,) = controller.run(plan(farm, store), lambda update: notes.update(update.notes)).jobs
    assert job.status is JobStatus.FAILED
    assert job.error.type == "HostUnserved"
    assert job.error.message == "the worker of host lab1 took no job; waited 3 s"


def test_a_worker_outlives_its_broker_and_is_not_there_as_long_as_it_has_none(farm, broker, until):
    with Store() as store:
        worker = farm.worker(broker.url, queue=LAB)
        until(lambda: serving(store))
        for pid, _ in farm.processes("farm.valkey"):  # the supervisor, which would start another
            os.kill(pid, signal.SIGKILL)
        for pid, _ in farm.processes("valkey-server"):
            os.kill(pid, signal.SIGKILL)
        until(lambda: present(store) and not serving(store))
        assert worker.poll() is None
        broker.ensure()
        until(lambda: serving(store))
        run_id = plan(farm, store)
        (job,) = Controller(store, broker, queue="lockstep", slots=None).run(run_id).jobs
        assert job.status is JobStatus.DONE
        worker.terminate()
        assert worker.wait() == 0
        assert present(store) == ()
    assert "Traceback" not in (farm.state / "worker.log").read_text()


def test_a_worker_that_was_forgotten_is_there_again(farm, broker, until):
    with Store() as store:
        farm.worker(broker.url, queue=LAB)
        until(lambda: serving(store))
        with store.write() as session:
            session.connection().exec_driver_sql("DELETE FROM workers")
        until(lambda: serving(store))


def test_a_slot_that_cannot_begin_is_told(farm, broker, monkeypatch):
    (farm.state / "sitecustomize.py").write_text("import farm.watch\nfarm.watch.BrokerWatch.start = None\n")
    monkeypatch.setenv("PYTHONPATH", f"{farm.state}:{os.environ['PYTHONPATH']}")
    worker = farm.worker(broker.url)
    assert worker.wait() == 3
    told = (farm.state / "worker.log").read_text()
    assert "error: the slots of this worker end as soon as they begin\n  next: the lines above say why" in told
    assert "TypeError" in told
