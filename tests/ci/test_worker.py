import os

import pytest
from click.testing import CliRunner

from ci.cli.main import cli
from engine.contract.errors import ConfigError
from farm.hosts import host_queue
from farm.tasks import DEFAULT_QUEUE


@pytest.fixture
def started(monkeypatch):
    """What a worker host would be started with."""
    settings = []

    class Host:
        def __init__(self, given):
            settings.append(given)

        def run(self):
            return 0

    monkeypatch.setattr("ci.cli.worker.WorkerHost", Host)
    monkeypatch.setattr("ci.cli.worker.log_to_stderr", lambda: None)
    for variable in ("LOCKSTEP_BROKER_URL_FILE", "LOCKSTEP_STORE_URL_FILE", "LOCKSTEP_STORE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", "redis://localhost")
    return settings


def invoke(*words):
    return CliRunner().invoke(cli, ["worker", *words])


def test_a_named_worker_serves_its_host_and_an_unnamed_one_the_rest(started, monkeypatch):
    assert invoke("--name", "lab1", "--slots", "4").exit_code == 0
    assert "LOCKSTEP_BROKER_URL" not in os.environ, "programs of jobs must not inherit it"
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", "redis://localhost")
    assert invoke().exit_code == 0
    named, unnamed = started
    assert (named.queue, named.slots) == (host_queue("lab1"), 4)
    assert unnamed.queue == DEFAULT_QUEUE
    assert named.store is None  # the default one


@pytest.mark.parametrize("name", ["", "a b", "-x", "../lab", "lab1\n", "x" * 49])
def test_a_name_that_cannot_be_a_queue_is_refused(started, name):
    done = invoke("--name", name)
    assert done.exit_code == 2
    assert "letters, digits, dot, dash, underscore; at most 48" in done.output
    assert not started


def test_no_broker_is_told(started, monkeypatch):
    monkeypatch.delenv("LOCKSTEP_BROKER_URL")
    error = invoke("--name", "lab1").exception
    assert isinstance(error, ConfigError)
    assert "LOCKSTEP_BROKER_URL_FILE=FILE" in error.hint


def test_a_url_is_no_argument(started):
    assert invoke("--broker", "redis://:secret@h").exit_code == 2


def test_the_help_teaches_and_fits_80_columns():
    text = invoke("--help").output
    assert "lockstep worker --name lab1 --slots 4" in text
    assert max(map(len, text.splitlines())) <= 80
