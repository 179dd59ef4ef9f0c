"""Deployment over a real adbd: bytes on the wire, every generation of shells, a lease lost half-way."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import adbsync, apart, deployment, posix
from agents.adb import AdbAgent
from agents.adbshell import PLAIN_SERVICES
from agents.deployment import Blob, BundleFiles
from agents.posix import CONTROL_SECONDS
from engine.contract.errors import StorageFull, TransferError
from tests.agents.adbd import AdbDevice, running_adbd
from tests.agents.adblines import agent_of
from tests.agents.adbunit import Units
from tests.agents.bundles import blob_of, fill
from tests.agents.relay import counting_relay
from tests.waiting import wait_until

pytestmark = pytest.mark.adb

KIB = 1024


@pytest.fixture
def device(units: Units, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AdbDevice:
    monkeypatch.setattr(deployment, "cache_root", lambda: tmp_path / "cache")
    return units.unit("x86-64")


@pytest.fixture(scope="module")
def full(units: Units, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbDevice]:
    """A device with a small disk; ``units`` has the server."""
    units.unit("x86-64")
    with running_adbd(tmp_path_factory.mktemp("full") / "unit", data_mb=100, name="full") as device:
        yield device


def build_of(folder: Path, small: int, changed: bytes = b"") -> BundleFiles:
    files = {f"lib/kernels/kernel_{n:03}.bin": blob_of(folder, n.to_bytes(2, "big") * 512) for n in range(small)}
    files["lib/engine.so"] = blob_of(folder, os.urandom(1) * 600_000, executable=True)
    if changed:
        files["lib/kernels/kernel_007.bin"] = blob_of(folder, changed)
    return BundleFiles(hashlib.sha256(repr(sorted(files)).encode() + os.urandom(8)).hexdigest(), files)


def there(device: AdbDevice, bundle: BundleFiles) -> dict[str, bytes]:
    root = device.root / "data/local/tmp/lockstep/bundles" / bundle.digest
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def sent(bundle: BundleFiles) -> dict[str, bytes]:
    return {name: blob.path.read_bytes() for name, blob in bundle.files.items()}


def test_what_is_unchanged_costs_four_kib_and_a_small_change_eight(device: AdbDevice, tmp_path: Path) -> None:
    build, model = build_of(tmp_path, 300), blob_of(tmp_path, os.urandom(700_000))
    with (
        counting_relay(device.port) as relay,
        AdbAgent("phone", "x86-64", serials=(f"127.0.0.1:{relay.port}",)) as agent,
    ):
        agent.deploy([model], lambda: None, build)
        assert there(device, build) == sent(build)
        relay.take()
        agent.deploy([model], lambda: None, build)
        assert sum(relay.take()) <= 4 * KIB
        name = "lib/kernels/kernel_007.bin"
        files = {**build.files, name: blob_of(tmp_path, os.urandom(KIB))}
        changed = BundleFiles(hashlib.sha256(files[name].sha256.encode()).hexdigest(), files)
        agent.deploy([model], lambda: None, changed)
        assert sum(relay.take()) <= 8 * KIB
    assert there(device, changed) == sent(changed)


@pytest.mark.parametrize("shell", ["v2", "exec", "pty"])
def test_files_that_travel_apart_arrive_over_every_shell(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setitem(PLAIN_SERVICES, "pty", "shell,pty")
    build, model = build_of(tmp_path, 20), blob_of(tmp_path, os.urandom(700_001))
    with AdbAgent("phone", "x86-64", serials=(device.serial,), shell=shell) as agent:
        agent.deploy([model], lambda: None, build)
        root = device.root / "data/local/tmp/lockstep"
        assert there(device, build) == sent(build)
        assert (root / "blobs" / model.sha256).read_bytes() == model.path.read_bytes()
        assert os.access(root / "bundles" / build.digest / "lib/engine.so", os.X_OK)
        assert list((root / "jobs").iterdir()) == []


def test_a_lease_lost_half_way_leaves_nothing_and_the_next_succeeds(device: AdbDevice, tmp_path: Path) -> None:
    class Lost(Exception):
        pass

    asked = 0

    def guard() -> None:
        nonlocal asked
        asked += 1
        if asked == 6:
            raise Lost

    model, build = blob_of(tmp_path, os.urandom(3_000_000)), build_of(tmp_path, 5)
    root = device.root / "data/local/tmp/lockstep"
    with AdbAgent("phone", "x86-64", serials=(device.serial,), token=1) as agent:
        with pytest.raises(Lost):
            agent.deploy([model], guard, build)
        assert not (root / "blobs" / model.sha256).exists()
        assert not (root / "bundles" / build.digest).exists()
        assert list((root / "jobs").iterdir()) == []
    with AdbAgent("phone", "x86-64", serials=(device.serial,), token=2) as agent:
        agent.deploy([model], lambda: None, build)
    assert there(device, build) == sent(build)
    assert list((root / "jobs").iterdir()) == []


def test_a_script_that_fails_at_once_is_told_before_the_files_have_arrived(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def slowly(blob: Blob) -> Iterator[bytes]:
        while not over.wait(0.01):
            yield b"x" * 100
        raise AssertionError(f"{blob.path.name} was waited for")

    monkeypatch.setattr(apart, "bytes_of", slowly)
    monkeypatch.setattr(posix, "PLACE_APART", "echo 'No space left on device' >&2; exit 3")
    watch = threading.Timer(60, over.set)
    watch.start()
    with agent_of(device.serial) as agent, pytest.raises(StorageFull, match="No space left"):
        agent.deploy([blob_of(tmp_path, os.urandom(700_000))], lambda: None)
    watch.cancel()


@pytest.mark.parametrize("small", [0, 400])
def test_a_script_that_fails_while_files_travel_leaves_nothing_of_them(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(posix, "PLACE_APART", posix.PLACE_APART.replace("at=0 one=", "leave 3\nat=0 one="))
    models, build = [blob_of(tmp_path, os.urandom(9_000_000)) for _ in range(2)], build_of(tmp_path, small)
    with AdbAgent("phone", "x86-64", serials=(device.serial,)) as agent:
        with pytest.raises(TransferError, match="cannot be unpacked"):
            agent.deploy(models, lambda: None, build)
        assert list((device.root / "data/local/tmp/lockstep/jobs").iterdir()) == []


@pytest.mark.parametrize("shell", ["v2", "exec", "pty"])
@pytest.mark.parametrize("what", ["jobs/1.deploy-1.sent/blobs", "blobs"])
def test_a_disk_that_we_filled_to_the_last_byte_locks_nobody_out(
    full: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, what: str
) -> None:
    monkeypatch.setitem(PLAIN_SERVICES, "pty", "shell,pty")
    with AdbAgent("phone", "x86-64", serials=(full.serial,), token=1) as agent:
        assert fill(agent, what)
    with AdbAgent("phone", "x86-64", serials=(full.serial,), token=2, shell=shell) as agent:
        agent.preflight()
        agent.deploy([blob_of(tmp_path, os.urandom(700_000))], lambda: None)


def test_after_a_reboot_what_may_not_have_reached_the_storage_travels_again(device: AdbDevice, tmp_path: Path) -> None:
    settled, doubtful = blob_of(tmp_path, os.urandom(300_000)), blob_of(tmp_path, os.urandom(700_000))
    kept = device.root / "data/local/tmp/lockstep/blobs"
    with AdbAgent("phone", "x86-64", serials=(device.serial,)) as agent:
        agent.deploy([settled, doubtful], lambda: None)
    with AdbAgent("phone", "x86-64", serials=(device.serial,)) as agent:
        wait_until(lambda: not any(path.stat().st_mode & stat.S_ISVTX for path in kept.iterdir()), "it has no end")
        (kept / doubtful.sha256).write_bytes(bytes(doubtful.size))
        agent.run_script('chmod +t -- "$1/blobs/$2"', agent.home, doubtful.sha256, seconds=60)
    device.reboot()
    kept = device.root / "data/local/tmp/lockstep/blobs"
    with AdbAgent("phone", "x86-64", serials=(device.serial,)) as agent:
        agent.deploy([settled, doubtful], lambda: None)
        assert agent.traffic.deployed == doubtful.size
    assert (kept / doubtful.sha256).read_bytes() == doubtful.path.read_bytes()


@pytest.mark.parametrize("shell", ["v2", "exec", "pty"])
def test_nobody_waits_until_what_was_placed_has_reached_the_storage(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setitem(PLAIN_SERVICES, "pty", "shell,pty")
    monkeypatch.setattr(posix, "MAKE_FOLDER", posix.MAKE_FOLDER.replace("sync;", f"sleep {2 * CONTROL_SECONDS:.0f};"))
    with AdbAgent("phone", "x86-64", serials=(device.serial,)) as agent:
        agent.deploy([blob_of(tmp_path, os.urandom(10))], lambda: None)
    with AdbAgent("phone", "x86-64", serials=(device.serial,), shell=shell) as agent:
        agent.preflight()


def test_what_was_used_last_is_told_by_the_clock_of_the_device(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = types.SimpleNamespace(time=lambda: time.time() + 30 * 86400, monotonic=time.monotonic)
    monkeypatch.setattr(adbsync, "time", ahead)
    with AdbAgent("phone", "x86-64", serials=(device.serial,), folder="/data/local/tmp/clock") as agent:
        agent.deploy([blob_of(tmp_path, os.urandom(size)) for size in (10, 300_000, 700_000)], lambda: None)
    arrived = [path.stat().st_mtime for path in (device.root / "data/local/tmp/clock/blobs").iterdir()]
    assert len(arrived) == 3
    assert max(arrived) < time.time() + 86400
