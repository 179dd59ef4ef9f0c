"""Deployment over a real sshd: every byte of the link counted, and the speed of uploads by their structure."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from agents import deployment, sshlink
from agents.deployment import Blob, BundleFiles
from agents.ssh import REQUEST_BYTES, SshAgent
from tests.agents.bundles import fill
from tests.agents.relay import Relay, counting_relay
from tests.agents.sshd import Sshd, running_sshd
from tests.agents.sshdevice import address_of, running_ssh_device

pytestmark = pytest.mark.ssh
KIB = 1024


def no_guard() -> None:
    return None


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd") as server:
        monkeypatch.setattr(deployment, "cache_root", lambda: tmp_path / "cache")
        yield server


def blob_of(folder: Path, data: bytes, executable: bool = False) -> Blob:
    sha256 = hashlib.sha256(data).hexdigest()
    (folder / sha256).write_bytes(data)
    return Blob(folder / sha256, sha256, len(data), executable)


def build_of(folder: Path, seed: int, large: int, small: int) -> BundleFiles:
    """A bundle of one large and many small files, as an engine with its kernels has."""
    folder.mkdir(exist_ok=True)
    rng = random.Random(seed)
    files = {"bin/runner": blob_of(folder, rng.randbytes(large), executable=True)}
    files |= {f"lib/kernels/kernel_{number:03}.bin": blob_of(folder, rng.randbytes(1024)) for number in range(small)}
    return bundle_of(files)


def bundle_of(files: dict[str, Blob]) -> BundleFiles:
    names = "".join(f"{name} {blob.sha256}\n" for name, blob in sorted(files.items()))
    return BundleFiles(hashlib.sha256(names.encode()).hexdigest(), files)


@pytest.fixture
def counted(
    daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SshAgent, Relay, list[str]]]:
    """An agent, its link's bytes, and the commands that it sends."""
    with counting_relay(daemon.port) as relay:
        kind, key = (daemon.folder / "host_key.pub").read_text().split()[:2]
        with (daemon.folder / "known_hosts").open("a") as known:
            known.write(f"[127.0.0.1]:{relay.port} {kind} {key}\n")
        commands: list[str] = []
        start = sshlink.SshLink._start
        monkeypatch.setattr(sshlink.SshLink, "_start", lambda link, text: commands.append(text) or start(link, text))
        address = replace(daemon.address, port=relay.port)
        with SshAgent("pi", "x86-64", address=address, folder=str(tmp_path / "device")) as agent:
            relay.take()
            commands.clear()
            yield agent, relay, commands


def test_an_unchanged_build_costs_one_round_trip_and_four_kib(
    counted: tuple[SshAgent, Relay, list[str]], tmp_path: Path
) -> None:
    agent, relay, commands = counted
    build = build_of(tmp_path / "build", 1, 4_000_000, 500)
    model, page = blob_of(tmp_path, b"model" * 1000), blob_of(tmp_path, b"input" * 1000)
    agent.deploy([model, page], no_guard, build)
    there, _ = relay.take()
    assert agent.traffic.deployed == 4_000_000 + 500 * 1024 + 10_000
    assert there < 1.2 * agent.traffic.deployed + 500 * 1024  # a header and padding for each of the small files
    assert len(commands) == 2  # what is missing, and one tar
    commands.clear()
    agent.deploy([model, page], no_guard, build)
    assert sum(relay.take()) <= 4 * KIB
    assert len(commands) == 1


def test_one_changed_small_file_costs_eight_kib(counted: tuple[SshAgent, Relay, list[str]], tmp_path: Path) -> None:
    agent, relay, commands = counted
    build = build_of(tmp_path / "build", 1, 4_000_000, 500)
    agent.deploy([], no_guard, build)
    relay.take()
    commands.clear()
    before = agent.traffic.deployed
    changed = bundle_of({**build.files, "lib/kernels/kernel_123.bin": blob_of(tmp_path, b"\1" * 1024)})
    agent.deploy([], no_guard, changed)
    assert sum(relay.take()) <= 8 * KIB
    assert len(commands) == 2
    assert agent.traffic.deployed - before == 1024
    for one in (build, changed):  # the older one keeps its own bytes
        there = tmp_path / "device/bundles" / one.digest
        assert all((there / name).read_bytes() == blob.path.read_bytes() for name, blob in one.files.items())


def test_a_large_upload_goes_in_pieces_near_the_best_size_and_is_hashed_on_the_device(
    daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D13: single writes above what sftp answers in one piece made uploads a hundred times slower."""
    data = random.Random(13).randbytes(64 * 2**20)
    sizes: set[int] = set()
    write, sendall = paramiko.SFTPFile.write, paramiko.Channel.sendall
    monkeypatch.setattr(paramiko.SFTPFile, "write", lambda file, piece: sizes.add(len(piece)) or write(file, piece))
    pieces: set[int] = set()
    monkeypatch.setattr(
        paramiko.Channel, "sendall", lambda channel, piece: pieces.add(len(piece)) or sendall(channel, piece)
    )
    with SshAgent("pi", "x86-64", address=daemon.address, folder=str(tmp_path / "device")) as agent:
        agent._send(blob_of(tmp_path, data).path, "jobs/model", executable=False)
        assert max(sizes) == REQUEST_BYTES
        agent.deploy([blob_of(tmp_path, data)], no_guard)
    assert max(pieces) <= deployment.CHUNK_BYTES + REQUEST_BYTES * 8
    (kept,) = (tmp_path / "device/blobs").iterdir()
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == kept.name == hashlib.sha256(data).hexdigest()
    assert hashlib.sha256((tmp_path / "device/jobs/model").read_bytes()).hexdigest() == kept.name


@pytest.mark.parametrize("what", ["jobs/1.deploy-1", "blobs"])
def test_a_disk_that_we_filled_to_the_last_byte_locks_nobody_out(tmp_path: Path, what: str) -> None:
    with running_ssh_device(tmp_path / "board", data_mb=100) as board:
        with SshAgent("board", "x86-64", address=address_of(board), folder="lockstep", token=1) as agent:
            assert fill(agent, what)
        with SshAgent("board", "x86-64", address=address_of(board), folder="lockstep", token=2) as agent:
            agent.preflight()
            agent.deploy([blob_of(tmp_path, b"model")], no_guard)
