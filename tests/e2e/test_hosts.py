"""One gate over two device hosts that share nothing with it but broker, store and blobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from ci.cli.main import cli
from tests.e2e.bench import HOST, REPOSITORY, Bench
from tests.e2e.two_hosts import units

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.services,
    pytest.mark.postgres,
    pytest.mark.timeout(300),
]

#: Root may make a network namespace; another user can in a user namespace of its own.
UNSHARE = ["unshare", "--net", "--mount"]
if os.geteuid() != 0:
    UNSHARE += ["--user", "--map-current-user", "--keep-caps"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of the run, and what was found there."""
    tried = subprocess.run([*UNSHARE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no network namespaces here: {tried.stderr.strip()}")
    folder = tmp_path_factory.mktemp("hosts")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.e2e.two_hosts", folder],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, json.loads((folder / "found.json").read_text())


def test_a_gate_over_two_hosts_passes(hosts: tuple[Path, dict[str, Any]]) -> None:
    folder, found = hosts
    assert found["exit_code"] == 0, found["text"]
    verdict = json.loads((folder / "out" / "latest" / "verdict.json").read_text())
    assert {(case["device"], case["status"]) for case in verdict["cases"]} == {
        ("board-lab1", "pass"),
        ("board-lab2", "pass"),
    }


def test_each_host_ran_the_job_of_its_own_device(hosts: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = hosts
    for mine, other in (("lab1", "lab2"), ("lab2", "lab1")):
        log = (folder / mine / "worker.log").read_text()
        assert f"device=board-{mine} " in log
        assert f"device=board-{other} " not in log
        assert list((folder / mine / "cache" / "blobs").rglob("?" * 64)), "its files came through the blob store"
        assert not list((folder / mine / "empty").iterdir()), "nothing was looked for in the cache of the gate"


def test_the_run_says_whose_it_is_and_how_urgent(hosts: tuple[Path, dict[str, Any]]) -> None:
    (run,) = hosts[1]["store"]["runs"]
    assert "0" in run
    assert any("@" in value for value in run)


def test_no_password_is_shown_anywhere(hosts: tuple[Path, dict[str, Any]]) -> None:
    folder, found = hosts
    texts = {name: found[name] for name in ("text", "arguments")} | {"store": json.dumps(found["store"])}
    files = [*(folder / "out").rglob("*"), *folder.glob("lab?/worker.log"), *folder.glob("lab?/state/**/*")]
    texts |= {str(path): path.read_bytes().decode(errors="replace") for path in files if path.is_file()}
    assert len(texts) > 8
    for place, text in texts.items():
        assert not any(secret in text for secret in found["secrets"]), place


def test_a_broker_that_fails_is_told_without_its_password(bench: Bench, tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.touch(mode=0o600)
    secret.write_text("rediss://:pa55w0rd-4711@127.0.0.1:1/0")
    bench.environment["LOCKSTEP_BROKER_URL_FILE"] = str(secret)
    done = bench.gate("--devices", bench.fleet(HOST), "--case", "vad-noise")
    assert done.exit_code == 3
    assert "LOCKSTEP_BROKER_URL: the broker does not answer" in done.text
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path != secret]
    for text in (done.text, *(path.read_bytes().decode(errors="replace") for path in kept)):
        assert "pa55w0rd" not in text


def test_the_units_of_the_page_are_well_formed_and_start_commands_that_exist() -> None:
    started = []
    for unit in units():
        assert "Description" in unit["Unit"]
        started += [unit["Service"]["ExecStart"].split()] if "Service" in unit else []
    assert [words[1] for words in started] == ["worker", "sweep"]
    for program, name, *words in started:
        assert program == "/opt/lockstep/.venv/bin/lockstep"
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, [word.replace("%i", "lab1") for word in words])
