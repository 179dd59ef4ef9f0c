from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ci.cli.devices import command
from engine.contract.errors import UsageError
from farm import leases
from farm.health import Health
from farm.jobs import JobError
from farm.store import Store
from farm.store.devices import note_failure

GONE = JobError(type="DeviceUnavailable", message="left is gone\x1b[2J")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCKSTEP_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("LOCKSTEP_STORE_URL", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    fields = {"chip": "c", "model": "m", "tier": "low", "abis": ["x86-64"], "memory_mb": 1, "link": {"kind": "local"}}
    path = tmp_path / "devices.yaml"
    path.write_text(json.dumps({"devices": [{"name": name, **fields} for name in ("left", "right")]}))
    return path


def run(fleet: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, ["--devices", str(fleet), *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def test_a_hold_says_who_why_and_until_when_and_a_release_ends_it(fleet: Path) -> None:
    code, text = run(fleet, "hold", "left", "--for", "2h", "--reason", "new heat sink", "--by", "ada")
    assert code == 0
    assert "left is held until" in text
    _, listed = run(fleet)
    assert "left: held by ada since" in listed
    assert ": new heat sink" in " ".join(listed.split())
    assert max(map(len, listed.splitlines())) <= 80
    _, shown = run(fleet, "show", "left")
    assert "ready → held" in shown
    assert run(fleet, "release", "left", "--by", "bob") == (0, "left is ready (was held)\n")
    assert "held by" not in run(fleet)[1]
    with pytest.raises(UsageError, match="left is ready: there is nothing to release"):
        run(fleet, "release", "left")


def test_what_a_hold_lies_upon_is_told_with_it(fleet: Path) -> None:
    with Store() as store, store.write() as session:
        note_failure(session, "left", GONE, store.clock(), Health())
    run(fleet, "hold", "left", "--for", "2h", "--reason", "new cable", "--by", "ada")
    words = " ".join(run(fleet)[1].split())
    assert ": new cable left: before that: offline by the farm since" in words
    assert run(fleet, "release", "left") == (0, "left is ready (was held, before that offline)\n")


def test_the_machines_states_and_leases_are_told_and_device_text_is_made_printable(fleet: Path) -> None:
    with Store() as store, store.write() as session:
        note_failure(session, "left", GONE, store.clock(), Health())
        leases.acquire(session, "right", "worker@far", 60, store.clock())
    _, listed = run(fleet)
    assert "left: offline by the farm since" in listed
    assert "tried again at" in " ".join(listed.split())
    assert "right: leased to worker@far: no job" in listed
    assert "\x1b" not in listed + run(fleet, "show", "left")[1]


def test_a_probe_runs_a_program_on_each_and_clears_what_the_machine_set(fleet: Path) -> None:
    with Store() as store, store.write() as session:
        note_failure(session, "left", GONE, store.clock(), Health())
    code, listed = run(fleet, "--probe")
    assert code == 0
    assert "offline" not in listed
    assert "offline → ready" in run(fleet, "show", "left")[1]


def test_a_probe_that_fails_says_what_to_do_and_leaves_with_3(fleet: Path) -> None:
    document = json.loads(fleet.read_text())
    document["devices"][0]["abis"] = ["riscv64"]
    fleet.write_text(json.dumps(document))
    code, text = run(fleet, "--probe")
    assert code == 3
    assert "left: FAILED: left: a tiny riscv64 program does not run there" in text
    assert "next: " in text


def test_a_device_of_a_host_is_probed_there(fleet: Path) -> None:
    document = json.loads(fleet.read_text())
    document["devices"][0]["at"] = "lab1"
    fleet.write_text(json.dumps(document))
    with Store() as store, store.write() as session:
        for name in ("left", "right"):
            note_failure(session, name, GONE, store.clock(), Health())
    code, text = run(fleet, "--probe", "--at", "lab1")
    assert code == 0
    assert "not probed" not in text
    assert "offline → ready" in run(fleet, "show", "left")[1]
    assert "right: offline" in run(fleet)[1], "not of this host: left alone"
    code, text = run(fleet, "--probe")
    assert code == 0
    assert "left: not probed: reached by host lab1 only\n  next: `lockstep devices --probe --at lab1` there" in text
    assert "offline → ready" in run(fleet, "show", "right")[1]


def test_a_host_without_devices_is_a_mistake(fleet: Path) -> None:
    with pytest.raises(UsageError, match=r"no device has `at: lab7`(.|\n)*hosts in this file: none"):
        run(fleet, "--probe", "--at", "lab7")
    with pytest.raises(UsageError, match=r"--at goes with --probe"):
        run(fleet, "--at", "lab1")


@pytest.mark.parametrize("time", ["2w", "0m", "-1h", "h", "1e3s", "9999999h", "367d"])
def test_a_time_that_is_none_is_refused_with_examples(fleet: Path, time: str) -> None:
    with pytest.raises(Exception, match="is not a time: write 90s, 30m, 2h or 1d"):
        run(fleet, "hold", "left", "--reason", "x", f"--for={time}")


def test_names_and_reasons_are_checked(fleet: Path) -> None:
    with pytest.raises(UsageError, match="unknown device 'lift': did you mean 'left'"):
        run(fleet, "hold", "lift", "--reason", "x")
    with pytest.raises(UsageError, match="an empty reason helps nobody"):
        run(fleet, "hold", "left", "--reason", " \n ")
