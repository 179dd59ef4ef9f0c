"""The contract suite of agents: every link passes the same tests."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agents import base, host, posix
from agents.adb import AdbAgent
from agents.base import Agent
from agents.deployment import Blob
from agents.emulated import EmulatedAgent
from agents.emulation.linux import USER
from agents.emulation.spec import Abi
from agents.host import HostAgent
from agents.local import LocalAgent
from agents.readings import Place, all_probes, flat, take
from agents.ssh import SshAgent
from engine.contract.errors import DeviceUnavailable, LeaseLost, StorageFull, TransferError
from engine.toolchain import emulator
from tests.agents.adbd import AdbDevice
from tests.agents.adbunit import Units, adb_units
from tests.agents.shellagent import shell_agent
from tests.agents.sshd import running_sshd
from tests.agents.sshdevice import SshDevice, SshUnits, address_of, ssh_units
from tests.waiting import wait_until


def no_guard() -> None:
    return None


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    with adb_units(tmp_path_factory.mktemp("units")) as started:
        yield started


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshUnits]:
    with ssh_units(tmp_path_factory.mktemp("boards")) as started:
        yield started


def ssh_agent(board: SshDevice, tmp_path: Path) -> SshAgent:
    """As ``adb_agent``."""
    (tmp_path / "device").symlink_to(board.root / "home" / USER / tmp_path.name)
    (tmp_path / "proc").symlink_to(board.root / "proc")
    return SshAgent("board", board.spec.abi, address=address_of(board), folder=tmp_path.name)


def adb_agent(device: AdbDevice, abi: Abi, tmp_path: Path) -> AdbAgent:
    """An agent with a folder of its own, which the host sees as it sees the other agents' folders."""
    folder = f"data/local/tmp/{tmp_path.name}"
    (tmp_path / "device").symlink_to(device.root / folder)
    (tmp_path / "proc").symlink_to(device.root / "proc")
    return AdbAgent("phone", abi, serials=(device.serial,), folder=f"/{folder}")


def wait_until_ended(tmp_path: Path, words: str) -> None:
    """Until the process whose number the device wrote into its job's folder is gone there."""
    proc = tmp_path / "proc" if (tmp_path / "proc").exists() else Path("/proc")
    stat = proc / (tmp_path / "device/jobs/one/pid").read_text().strip() / "stat"
    wait_until(lambda: not stat.exists() or " Z " in stat.read_text(), words)


@pytest.fixture(
    params=[
        "local",
        "emulated-native",
        pytest.param("emulated-arm64", marks=pytest.mark.qemu),
        pytest.param("ssh", marks=pytest.mark.ssh),
        pytest.param("ssh-chroot", marks=pytest.mark.ssh),
        pytest.param("ssh-arm64", marks=[pytest.mark.ssh, pytest.mark.qemu]),
        pytest.param("adb-x86-64", marks=pytest.mark.adb),
        pytest.param("adb-arm64", marks=[pytest.mark.adb, pytest.mark.qemu]),
        "dash",
        "busybox",
        "toybox",
    ]
)
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    root = tmp_path / "device"
    made: Agent
    if request.param.startswith("adb-"):
        abi: Abi = "arm64" if request.param == "adb-arm64" else "x86-64"
        device = request.getfixturevalue("units").unit(abi)
        with adb_agent(device, abi, tmp_path) as made:
            yield made
            made._remove("")
        return
    if request.param in ("ssh-chroot", "ssh-arm64"):
        board = request.getfixturevalue("boards").unit("arm64" if request.param == "ssh-arm64" else "x86-64")
        with ssh_agent(board, tmp_path) as made:
            yield made
            made._remove("")
        return
    if request.param == "ssh":
        with (
            running_sshd(tmp_path / "sshd") as daemon,
            SshAgent("pi", "x86-64", address=daemon.address, folder=str(root)) as made,
        ):
            yield made
        return
    if request.param in ("dash", "busybox", "toybox"):
        made = shell_agent(request.param, root, tmp_path)
    elif request.param == "local":
        made = LocalAgent("here", "x86-64", root=root)
    elif request.param == "emulated-native":
        made = EmulatedAgent("v1", "x86-64", root=root)
    else:
        made = EmulatedAgent("a53", "arm64", root=root, emulator=emulator("qemu-aarch64"), cpu="cortex-a53")
    with made:
        yield made


def blob_of(folder: Path, data: bytes, executable: bool = False) -> Blob:
    path = folder / hashlib.sha256(data).hexdigest()[:8]
    path.write_bytes(data)
    return Blob(path, hashlib.sha256(data).hexdigest(), len(data), executable)


def script(agent: Agent, text: str, seconds: float = 20.0) -> object:
    """Run a shell script natively, whatever the device emulates: links differ, deadlines do not."""
    if isinstance(agent, HostAgent):
        agent.prefix = ()
    return agent.run(["/bin/sh", "-c", text], "jobs/one", {}, seconds)


def test_preflight_proves_a_usable_device(agent: Agent) -> None:
    agent.preflight()


def test_preflight_leaves_nothing_behind(agent: Agent, tmp_path: Path) -> None:
    agent.preflight()
    assert list((tmp_path / "device" / "bundles").iterdir()) == []


def test_preflight_refuses_a_device_that_runs_other_programs(tmp_path: Path) -> None:
    with (
        LocalAgent("here", "armv7", root=tmp_path) as wrong,
        pytest.raises(DeviceUnavailable, match="a tiny armv7 program does not run there"),
    ):
        wrong.preflight()


def test_a_folder_that_allows_no_execution_is_not_a_crash_of_the_engine(tmp_path: Path) -> None:
    class NoExec(LocalAgent):
        def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
            super()._send(data, target, executable=False)

    with NoExec("here", "x86-64", root=tmp_path) as agent, pytest.raises(DeviceUnavailable, match="allows execution"):
        agent.preflight()


def test_only_what_the_device_lacks_travels(agent: Agent, tmp_path: Path) -> None:
    first, second = blob_of(tmp_path, b"one"), blob_of(tmp_path, b"three")
    agent.deploy([first], no_guard)
    agent.deploy([first, second], no_guard)
    assert agent.traffic.deployed == len(b"one") + len(b"three")


def test_a_corrupted_transfer_is_never_visible_under_its_final_name(agent: Agent, tmp_path: Path) -> None:
    good = blob_of(tmp_path, b"good")
    good.path.write_bytes(b"evil")
    with pytest.raises(TransferError, match="arrived with sha256") as caught:
        agent.deploy([good], no_guard)
    assert "`lockstep devices --probe`, then try again" in caught.value.hint
    assert list((tmp_path / "device" / "blobs").iterdir()) == []


@pytest.mark.parametrize("left", [0, 3, 23])
def test_a_blob_that_lost_or_gained_bytes_travels_again(agent: Agent, tmp_path: Path, left: int) -> None:
    blob, other = blob_of(tmp_path, b"13 bytes long"), blob_of(tmp_path, b"whole")
    agent.deploy([blob, other], no_guard)
    (tmp_path / "device/blobs" / blob.sha256).write_bytes(b"x" * left)
    before = agent.traffic.deployed
    agent.deploy([blob, other], no_guard)
    assert (tmp_path / "device/blobs" / blob.sha256).read_bytes() == b"13 bytes long"
    assert agent.traffic.deployed - before == 13


def test_a_lost_lease_stops_a_deployment(agent: Agent, tmp_path: Path) -> None:
    class Lost(Exception):
        pass

    def guard() -> None:
        raise Lost

    with pytest.raises(Lost):
        agent.deploy([blob_of(tmp_path, b"x")], guard)
    assert list((tmp_path / "device" / "blobs").iterdir()) == []


@pytest.mark.parametrize("share", [0.4, 0.7, 1.0])
def test_a_deployment_that_ends_early_leaves_nothing(agent: Agent, tmp_path: Path, share: float) -> None:
    class Lost(Exception):
        pass

    calls, limit = 0, 0

    def guard() -> None:
        nonlocal calls
        calls += 1
        if calls == limit:
            raise Lost

    def blobs() -> list[Blob]:
        return [blob_of(tmp_path, os.urandom(1_000_000)) for _ in range(3)]

    agent.deploy(blobs(), guard)
    before = {path.name for path in (tmp_path / "device/blobs").iterdir()}
    limit, calls = int(calls * share), 0
    with pytest.raises(Lost):
        agent.deploy(blobs(), guard)
    assert {path.name for path in (tmp_path / "device/blobs").iterdir()} == before
    wait_until(lambda: list((tmp_path / "device/jobs").iterdir()) == [], "what had arrived stays")


def test_a_deadline_ends_a_program_and_its_children(agent: Agent, tmp_path: Path) -> None:
    # An emulated device may need seconds to start the shell itself, and the child must run before the deadline.
    for seconds in (0.5, 4.0, 30.0):
        done = script(agent, "sleep 600 & echo $! > pid; wait", seconds)
        assert done.timed_out  # type: ignore[attr-defined]
        if (tmp_path / "device/jobs/one/pid").exists():
            break
    wait_until_ended(tmp_path, "the child outlived its deadline")


def test_an_interrupt_ends_a_program_that_hangs_and_no_other_starts(agent: Agent, tmp_path: Path) -> None:
    mark = tmp_path / "device/jobs/one/pid"

    def interrupt_once_it_runs() -> None:
        with suppress(AssertionError):  # a program that never starts must not run for its 300 s either
            wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"))
        agent.interrupt()

    other = threading.Thread(target=interrupt_once_it_runs)
    other.start()
    with pytest.raises(LeaseLost, match="the job was taken away while it ran"):
        script(agent, "sleep 600 & echo $! > pid; wait", seconds=300)
    other.join()
    wait_until_ended(tmp_path, "the child outlived the interrupt")
    with pytest.raises(LeaseLost):
        script(agent, "touch started")
    assert not mark.with_name("started").exists()
    agent.end_job("jobs/one")
    assert not mark.parent.exists(), "what a job left behind can still be removed"


def test_a_program_that_leaves_children_behind_leaves_none(agent: Agent, tmp_path: Path) -> None:
    script(agent, "sleep 600 & echo $! > pid")
    wait_until_ended(tmp_path, "the child outlived its parent")


@pytest.mark.parametrize(("how", "signal"), [("kill -SEGV $$", 11), ("kill -ILL $$", 4), ("exit 7", None)])
def test_a_crash_tells_its_signal(agent: Agent, how: str, signal: int | None) -> None:
    done = script(agent, how)
    assert done.signal == signal  # type: ignore[attr-defined]


def test_both_streams_are_kept_apart_and_only_their_tail(agent: Agent) -> None:
    done = script(agent, "head -c 300000 /dev/zero; echo end; echo oops >&2")
    assert len(done.stdout) == 64 * 1024  # type: ignore[attr-defined]
    assert done.stdout.endswith(b"end\n")  # type: ignore[attr-defined]
    assert done.stderr == b"oops\n"  # type: ignore[attr-defined]


def test_a_result_larger_than_its_limit_is_refused(agent: Agent) -> None:
    agent.send_text("x" * 100, "jobs/one/result.json")
    with pytest.raises(TransferError, match="larger than 10 bytes"):
        agent.fetch("jobs/one/result.json", 10)


def test_a_link_out_of_the_folder_is_not_followed(agent: Agent) -> None:
    script(agent, 'echo secret > ../../../secret; ln -s "$PWD/../../../secret" leak; ln -s /proc/version kernel')
    for name in ("leak", "kernel"):
        with pytest.raises(TransferError, match="no file"):
            agent.fetch(f"jobs/one/{name}", 1000)


def test_bytes_are_counted_in_both_directions(agent: Agent) -> None:
    agent.send_text("hello", "jobs/one/request.json")
    agent.fetch("jobs/one/request.json", 100)
    assert (agent.traffic.to_device, agent.traffic.from_device) == (5, 5)


def test_a_job_leaves_nothing_behind(agent: Agent, tmp_path: Path) -> None:
    folder = agent.begin_job("one")
    agent.send_text("x", f"{folder}/request.json")
    agent.end_job(folder)
    assert list((tmp_path / "device" / "jobs").iterdir()) == []


def test_a_full_disk_is_told_as_such(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (base, host, posix):  # as if a petabyte had to stay free
        monkeypatch.setattr(module, "RESERVE_BYTES", 2**50, raising=True)
    with pytest.raises(StorageFull, match=r"\d+ MiB free where bundles live; 1073741824 are needed"):
        agent.preflight()
    with pytest.raises(StorageFull, match=r"0 MiB do not fit: \d+ MiB are free, 1073741824 must stay free"):
        agent.deploy([blob_of(tmp_path, b"x" * 4096)], no_guard)
    assert agent.traffic.deployed == 0


def test_a_device_that_we_filled_frees_itself(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.token = 7
    agent.deploy([blob_of(tmp_path, b"of another job")], no_guard)
    agent.send_text("x", "jobs/6.deploy-1.sent/blobs/of-an-earlier-holder")
    agent.send_text("x", "jobs/8.deploy-1/of-the-next-holder")
    agent.preflight()
    assert list((tmp_path / "device/blobs").iterdir()), "nothing goes while there is room"
    for module in (base, host, posix):  # as if a terabyte had to stay free
        monkeypatch.setattr(module, "RESERVE_BYTES", 2**40, raising=True)
    with pytest.raises(StorageFull, match=r"\d+ MiB free where bundles live; 1048576 are needed"):
        agent.preflight()
    assert list((tmp_path / "device/blobs").iterdir()) == []
    assert [path.name for path in (tmp_path / "device/jobs").iterdir()] == ["8.deploy-1"]


def test_binary_files_arrive_byte_for_byte(agent: Agent, tmp_path: Path) -> None:
    data = b"\x0d\x0a\x0a\x0d" * 1000
    blob = blob_of(tmp_path, data)
    agent.deploy([blob], no_guard)
    assert agent.fetch(f"blobs/{blob.sha256}", len(data)) == data


def test_facts_are_flat_text(agent: Agent) -> None:
    facts = agent.facts()
    assert {"cpu", "kernel", "os_build", "drivers"} <= set(facts)
    assert all(isinstance(value, str) for value in facts.values())


def test_every_probe_answers_over_every_link(agent: Agent) -> None:
    told = flat(take(agent.run_script, all_probes(), Place(agent.home), pid=1))
    assert told["cores"]
    assert told["storage_executable"] is True
    assert told["storage_free_mib"]
    assert told["clock_skew_seconds"] is not None
    assert not [reason for reason in told.values() if "did not arrive" in str(reason)]


def test_a_script_gets_its_arguments_as_they_are(agent: Agent) -> None:
    values = ["", "a b", "'", '"', "$HOME", "`id`", "\\", "*", "-n", "ü"]
    done = agent.run_script('printf "%s\\n" "$#" "$@"', *values, seconds=20)
    assert done.stdout.decode().splitlines() == [str(len(values)), *values]
