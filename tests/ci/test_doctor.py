from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci import doctor
from engine.toolchain import EMULATORS


def test_an_empty_cache_is_found_and_mended_by_make_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "none"))
    for check in (doctor.compiler(), *(doctor.emulated(name) for name in EMULATORS)):
        assert not check.ok
        assert "not in the cache" in check.detail
        assert check.next_step == "make setup"
    assert doctor.chromium().ok, "no gate needs the browser"
    assert "make test" in doctor.chromium().detail


@pytest.mark.qemu
@pytest.mark.parametrize("name", EMULATORS)
def test_every_emulator_executes_a_program_of_its_architecture(name: str) -> None:
    check = doctor.emulated(name)
    assert check.ok, check.detail
    assert check.detail.startswith(f"{name} version 10.")


@pytest.mark.qemu
def test_an_emulator_that_runs_programs_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, flags, code = doctor.PROGRAMS["qemu-arm"]
    monkeypatch.setitem(doctor.PROGRAMS, "qemu-arm", (machine, flags, code.replace(b"\x2a", b"\x07", 1)))
    check = doctor.emulated("qemu-arm")
    assert not check.ok
    assert "left with 7, not 42" in check.detail
    assert "make setup" in check.next_step


def test_a_missing_feature_of_the_processor_is_named() -> None:
    assert doctor.cpu_features(doctor.X86_64_V3 | {"sse2"}).ok
    check = doctor.cpu_features(doctor.X86_64_V3 - {"fma", "avx2"})
    assert not check.ok
    assert check.detail == "lacks avx2, fma"
    assert "--device" in check.next_step


def test_the_embedded_server_starts_and_a_named_broker_is_left_alone() -> None:
    assert "server v=" in doctor.broker({}).detail
    assert "LOCKSTEP_BROKER_URL" in doctor.broker({"LOCKSTEP_BROKER_URL": "redis://nowhere"}).detail


def test_a_place_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    assert doctor.writable("cache", lambda: tmp_path / "new", "LOCKSTEP_CACHE").ok
    assert list(tmp_path.iterdir()) == [], "a check changes nothing"
    check = doctor.writable("cache", lambda: Path("/proc/lockstep"), "LOCKSTEP_CACHE")
    assert not check.ok
    assert "set LOCKSTEP_CACHE" in check.next_step


def test_too_little_room_or_memory_and_a_clock_in_the_past_are_found(tmp_path: Path) -> None:
    assert doctor.disk(tmp_path, needed=1).ok
    assert not doctor.disk(tmp_path, needed=2**60).ok
    assert not doctor.memory(2**20).ok
    (tmp_path / "requirements.lock").touch()
    assert doctor.clock(time.time(), tmp_path).ok
    assert doctor.clock(0, tmp_path).detail == "1970-01-01 00:00:00 UTC"
    assert not doctor.clock(0, tmp_path).ok


def test_another_environment_and_an_unfinished_one_are_found(tmp_path: Path) -> None:
    check = doctor.environment(tmp_path)
    assert not check.ok
    assert "not the .venv of this folder: not set up" in check.detail
    assert check.next_step == "make setup"


def test_a_missing_program_says_what_to_install() -> None:
    check = doctor.program("no-such-program", "apt-get install it")
    assert (check.ok, check.next_step) == (False, "apt-get install it")


def test_all_checks_are_made_once_and_quickly() -> None:
    names = [check.name for check in doctor.checks()]
    assert len(names) == len(set(names))
    assert {"Python", "git", "compiler", "processor", "broker", "disk", "clock", *EMULATORS} <= set(names)
