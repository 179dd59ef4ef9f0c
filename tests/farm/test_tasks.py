"""The broker as it is reached over a network: TLS that is checked, order by priority, JSON only."""

import os
import subprocess
import sys

import pytest
from kombu import Connection, Queue, pools

from engine.contract.errors import BrokerError, ConfigError
from farm.broker import ExternalBroker, check_url, choose_broker
from farm.jobs import JobStatus, Priority
from farm.store.workers import present
from farm.tasks import Publisher, broker_connection, make_app
from tests.farm.redis_tls import Authority, running_redis

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(autouse=True)
def _fresh_connections():
    """kombu keeps connections by address: one that was let in must not serve a client with other certificates."""
    pools.reset()


def received(url, queue, count):
    """Arguments of the first ``count`` messages, in the order in which a worker gets them."""
    app = make_app(url, queue)
    got = []
    with (
        app.connection_for_read() as connection,
        connection.Consumer(
            Queue(queue, no_declare=True),
            accept=["json"],
            callbacks=[lambda body, message: (got.append(body), message.ack())],
        ) as consumer,
    ):
        consumer.qos(prefetch_count=1)
        while len(got) < count:
            connection.drain_events(timeout=20)
    app.close()
    return [body[0][0] for body in got]


def test_slots_take_the_best_job_first(server):
    publisher = Publisher(server.url, "order")
    for job, priority in (("n", Priority.NIGHTLY), ("i", Priority.INTERACTIVE), ("p", Priority.PULL_REQUEST)):
        publisher.send(job, priority=priority)
        publisher.send(f"{job}2", priority=priority)
    publisher.close()
    assert received(server.url, "order", 6) == ["p", "p2", "i", "i2", "n", "n2"]


def test_a_job_goes_to_the_queue_of_its_host(server):
    publisher = Publisher(server.url, "own")
    publisher.send("there", queue="lockstep.host.lab1")
    publisher.send("here")
    publisher.close()
    assert received(server.url, "lockstep.host.lab1", 1) == ["there"]
    assert received(server.url, "own", 1) == ["here"]


def test_a_server_that_another_authority_vouches_for_is_refused(server, tmp_path):
    other = Authority(tmp_path, "somebody else")
    url = server.url.replace(str(server.authority.file), str(other.file))
    with pytest.raises(BrokerError, match="certificate verify failed"):
        Publisher(url, "q").send("job")
    with pytest.raises(BrokerError, match=r"does not answer: .*certificate verify failed") as caught:
        ExternalBroker(check_url(url)).ensure()
    assert server.password not in str(caught.value)


def test_a_server_under_another_name_is_refused(server):
    url = server.url.replace("127.0.0.1", "localhost")
    with pytest.raises(BrokerError, match="certificate verify failed"):
        Publisher(url, "q").send("job")


def test_without_the_authority_named_the_machines_own_are_asked(server):
    with pytest.raises(BrokerError, match="certificate verify failed"):
        Publisher(server.url.partition("?")[0], "q").send("job")


def test_not_looking_at_the_certificate_has_to_be_asked_for(server, monkeypatch):
    url = server.url.partition("?")[0] + "?ssl_cert_reqs=none"
    with pytest.raises(ConfigError, match="trusts whoever answers"):
        check_url(url)
    monkeypatch.setenv("LOCKSTEP_BROKER_INSECURE", "1")
    assert check_url(url) == url
    Publisher(url, "insecure").send("job")
    assert received(url, "insecure", 1) == ["job"]


def test_a_wrong_password_is_told_without_it(server):
    url = server.url.replace(server.password, "hunter2-hunter2")
    with pytest.raises(BrokerError) as caught:
        ExternalBroker(url).ensure()
    assert "hunter2" not in str(caught.value)


def test_plain_urls_are_left_alone():
    assert broker_connection("redis://:p@h:1/0?x=1") == ("redis://:p@h:1/0?x=1", None)


@pytest.fixture
def worker(farm, server, monkeypatch, tmp_path):
    """A worker of host lab1 that got its URL from a file, and its log."""
    secret = tmp_path / "url"
    secret.touch(mode=0o600)
    secret.write_text(server.url)
    monkeypatch.setenv("LOCKSTEP_BROKER_URL_FILE", str(secret))
    command = [sys.executable, "-m", "farm.worker", "--executor", "farm_executors:record"]
    log = tmp_path / "worker.log"
    with log.open("wb") as stream:
        process = subprocess.Popen([*command, "--queue", "lockstep.host.lab1"], stderr=stream)
    yield process, log
    process.kill()
    process.wait()


class Exploit:
    """Unpickling it would leave a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mknod, (self.path,)


def test_a_job_runs_over_tls_at_its_host_and_a_pickled_message_runs_nothing(farm, server, worker, until, tmp_path):
    process, log = worker
    with farm.session() as session:
        until(lambda: present(session.store))
        plain, tls = broker_connection(server.url)
        with Connection(plain, ssl=tls) as connection:
            message = [[Exploit(tmp_path / "unpickled")], {}, {}]
            connection.Producer().publish(
                message,
                routing_key="lockstep.host.lab1",
                declare=[Queue("lockstep.host.lab1")],
                serializer="pickle",
                headers={"task": "lockstep.run_job", "id": "x", "lang": "py"},
            )
        job = farm.job("c", "d")
        run_id = farm.plan(session.store, type(job)(**(vars(job) | {"queue": "lockstep.host.lab1"})))
        (ended,) = session.run(run_id).jobs
        assert ended.status is JobStatus.DONE, ended.error
        assert not (tmp_path / "unpickled").exists()
        process.terminate()
        process.wait(timeout=30)
        assert present(session.store) == ()
    assert process.returncode == 0
    assert "ContentDisallowed" in log.read_text() or "Refusing to deserialize" in log.read_text()
    assert server.password not in log.read_text()


def test_the_broker_of_a_file_is_chosen(worker, server):
    with choose_broker() as broker:
        assert broker.url == server.url
