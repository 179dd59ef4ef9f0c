"""A whole gate on an Android device behind a real adb daemon."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.adb import AdbAgent
from agents.adbserver import stop_server
from agents.emulation.roots import tree_of
from agents.emulation.spec import Spec
from engine.bundle import BuildSpec, build_bundle
from engine.debian import silent
from engine.places import cache_root
from engine.toolchain import Toolchain
from farm.engines import load_engine
from farm.ticking import ticking
from tests.agents.adbd import AdbDevice, running_adbd
from tests.e2e.bench import HOST, REPOSITORY, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.adb, pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture
def phone(tmp_path: Path, bench: Bench) -> Iterator[AdbDevice]:
    with running_adbd(tmp_path / "phone") as device:
        yield device
    assert stop_server(bench.folder / "state" / "adb"), "somebody still uses the adb server"


def device_behind(phone: AdbDevice) -> dict[str, Any]:
    return {**HOST, "name": "phone", "os": "android", "link": {"kind": "adb", "serial": phone.serial}}


def kept(phone: AdbDevice) -> dict[str, int]:
    """Every file by name, and which one it is: a file that is used again is marked, one that travels again is new."""
    folder = phone.root / "data/local/tmp/lockstep"
    return {str(path.relative_to(folder)): path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def test_a_gate_over_adb_passes_and_a_second_one_deploys_nothing(bench: Bench, phone: AdbDevice) -> None:
    fleet = bench.fleet(device_behind(phone))
    blobs = []
    for _ in range(2):
        done = bench.gate("--devices", fleet, "--case", "vad-noise")
        entry = done.case("vad-noise", "phone")
        assert entry["status"] == "pass", done.text
        assert "29 compared layers equal canonical bit for bit" in entry["reason"]
        blobs.append({name: inode for name, inode in kept(phone).items() if name.startswith(("blobs", "bundles"))})
    (device,) = done.verdict["devices"]
    assert (device["link"], device["emulated"], device["tested"]) == ("adb", False, True)
    assert device["fingerprint"]["fixed_performance"] == "on"
    assert blobs[0] == blobs[1] != {}
    assert not [name for name in kept(phone) if name.startswith("jobs")]
    mode = phone.root / "data/emulation/fixed-performance.txt"
    assert mode.read_text().strip() == "false", "put back as it was"


def test_an_injected_fault_is_found_on_an_adb_device(bench: Bench, phone: AdbDevice) -> None:
    fleet = bench.fleet(device_behind(phone))
    done = bench.gate("--devices", fleet, "--case", "vad-noise", "--inject", "drop_bias@/encoder.1/Conv_output_0")
    assert done.exit_code == 1, done.text
    entry = done.case("vad-noise", "phone")
    assert entry["status"] == "fail"
    assert entry["first_deviating_layer"] == "/encoder.1/Conv_output_0"


def test_a_crash_on_android_brings_its_log_and_tombstone(bench: Bench, phone: AdbDevice) -> None:
    script = (
        "log -t libengine boom at conv1; echo 'pid: 1, name: engine' > /data/tombstones/tombstone_00; kill -SEGV $$"
    )
    done = bench.gate(
        "--engine", bench.engine("fatal", script), "--devices", bench.fleet(device_behind(phone)), "--case", "vad-noise"
    )
    assert done.exit_code == 1, done.text
    entry = done.case("vad-noise", "phone")
    assert entry["status"] == "crashed"
    assert "SIGSEGV" in entry["reason"]
    assert "libengine: boom at conv1" in entry["evidence"]["logcat"]
    assert "emulated device started" not in entry["evidence"]["logcat"], "only since it began"
    assert entry["evidence"]["tombstone"] == "pid: 1, name: engine"
    assert "boom at conv1" in (done.out / "latest/report/index.html").read_text()


@contextmanager
def cut_when(started: Path, phone: AdbDevice) -> Iterator[None]:
    """Cut the line once the runner runs."""

    def watch() -> bool:
        if started.exists():
            phone.cut()
            return False
        return True

    with ticking("cut", 0.02, watch):
        yield


def test_a_line_that_is_cut_while_the_runner_runs_is_not_the_engines_fault(bench: Bench, phone: AdbDevice) -> None:
    engine = bench.engine("waits", "touch /data/local/tmp/running; sleep 600")
    fleet = bench.fleet(device_behind(phone))
    started = phone.root / "data/local/tmp/running"
    with cut_when(started, phone):
        done = bench.gate("--engine", engine, "--devices", fleet, "--case", "vad-noise")
    assert done.exit_code == 3, done.text
    assert "phone: the adb link" in done.text or f"phone: {phone.serial} is" in done.text
    assert "crashed" not in done.text


LIBRARY = 'extern "C" const char* engine_program() { return "refrt"; }'
LAUNCHER = r"""
#include <cstdio>
#include <cstring>
#include <unistd.h>
extern "C" const char* engine_program();
int main(int, char** argv) {
    char path[4096];
    snprintf(path, sizeof path, "%.*s/%s", int(strrchr(argv[0], '/') - argv[0]), argv[0], engine_program());
    return execv(path, argv);
}
"""


def link_for_the_phone(source: Path, out: Path, *more: str) -> None:
    """Compile against the C library of the device itself, as an NDK does."""
    tools = Toolchain.locate()
    flags = ["--target=x86_64-linux-gnu", f"--sysroot={tools.root}", "-fuse-ld=lld", "-nodefaultlibs"]
    command = [str(tools.compiler), *flags, str(source), *more, "-o", str(out)]
    subprocess.run(command, env=tools.environment(), check=True)


def refrt() -> Path:
    """The referee's binary, from the cache when it is there."""
    manifest = load_engine(REPOSITORY / "engines", "refrt")
    assert manifest.build
    spec = BuildSpec(manifest.build.command, manifest.build.sources)
    built = build_bundle("refrt", "x86-64", ["refrt"], spec, REPOSITORY, cache=cache_root(), python=sys.executable)
    return built.root / "refrt"


def dynamic_engine(folder: Path) -> None:
    """A launcher that must find its library before it can start the referee."""
    (folder / "lib").mkdir(parents=True)
    shutil.copy(refrt(), folder / "refrt")
    for name, source in (("library", LIBRARY), ("launcher", LAUNCHER)):
        (folder / f"{name}.cpp").write_text(source)
    libc = tree_of(Spec("phone", "adb", "x86-64"), silent) / "usr/lib/x86_64-linux-gnu/libc.so.6"
    library = folder / "lib/libengine.so"
    link_for_the_phone(folder / "library.cpp", library, "-shared", "-fPIC", "-Wl,-soname,libengine.so")
    link_for_the_phone(folder / "launcher.cpp", folder / "launch", str(library), str(libc))


def test_a_dynamic_engine_finds_the_library_in_its_bundle_and_nowhere_else(
    bench: Bench, phone: AdbDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    dynamic_engine(bench.folder / "dynamic")
    engine = bench.engine(
        "dynamic",
        "",
        level=2,
        model_format="refrt",
        runner=["./launch"],
        env={"LD_LIBRARY_PATH": "{bundle}/lib"},
        abis={"x86-64": {"files": ["launch", "refrt", "lib/libengine.so"]}},
    )
    done = bench.gate("--devices", bench.fleet(device_behind(phone)), "--case", "vad-noise", "--engine", engine)
    entry = done.case("vad-noise", "phone")
    assert entry["status"] == "pass", entry
    assert "29 compared layers equal canonical bit for bit" in entry["reason"]
    monkeypatch.setenv("LOCKSTEP_STATE", str(bench.folder / "state"))
    bundles = phone.root / "data/local/tmp/lockstep/bundles"
    (launch,) = (path.relative_to(bundles) for path in bundles.glob("*/launch"))
    with AdbAgent("phone", "x86-64", serials=(phone.serial,)) as agent:
        lost = agent.run([f"../../bundles/{launch}"], "jobs/lost", {}, 20)
        agent.end_job("jobs/lost")
    assert lost.exit_code == 127
    assert b"libengine.so: cannot open shared object file" in lost.stderr


@pytest.mark.long
@pytest.mark.qemu
def test_a_whole_gate_on_an_arm64_phone(bench: Bench, tmp_path: Path) -> None:
    with running_adbd(tmp_path / "arm", "arm64", name="arm") as device:
        entry = {
            **HOST,
            "name": "arm",
            "chip": "cortex-a53",
            "model": "emulated-adb",
            "os": "android",
            "abis": ["arm64"],
            "link": {"kind": "adb", "serial": device.serial, "emulated": True},
        }
        try:
            done = bench.gate("--devices", bench.fleet(entry))
        finally:
            assert stop_server(bench.folder / "state" / "adb"), "somebody still uses the adb server"
    assert done.exit_code == 0, done.text
    assert {case["status"] for case in done.verdict["cases"]} == {"pass"}
    assert {case["device"] for case in done.verdict["cases"]} == {"arm"}
    (told,) = done.verdict["devices"]
    assert (told["link"], told["emulated"], told["tested"]) == ("adb", True, True)
    assert done.verdict["coverage"]["layers_paired"] == done.verdict["coverage"]["layers_expected"]
