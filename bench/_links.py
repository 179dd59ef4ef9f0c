"""The links that deployments are measured over, and the tools that people use there (bench/deploy_speed.py)."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agents.adb import AdbAgent
from agents.adbdaemon import Endpoint, protocol_version
from agents.adbserver import AdbServer, adb_binary, stop_server
from agents.emulation.linux import USER, known_host
from agents.emulation.spec import Spec
from agents.emulation.units import Unit, start
from agents.posix import PosixAgent
from agents.ssh import SshAgent
from agents.sshlogin import Address
from engine.supervising import free_port
from engine.toolchain import environment_of, group_tree
from tests.agents.relay import Relay, counting_relay
from tests.waiting import wait_until

WRITES = (4096, 16384, 32768, 65536, 262144)
LARGE_BYTES = 64 * 2**20


@dataclass
class Link:
    """One link: our agent and the peers, each reached at a port: the device's own, or that of the relay.

    A peer takes a port, a folder, and a name on the device. ``renews`` are those that compare before they send.
    ``pull`` brings a file of the device (its path there) to one of this host.
    """

    port: int
    relay: Relay
    agent_at: Callable[[int], PosixAgent]
    peers: Mapping[str, Callable[[int, Path, str], None]]
    renews: tuple[str, ...]
    pull: tuple[str, Callable[[str, Path], None]]
    extra: Callable[[PosixAgent, Path], dict[str, float]] = lambda _, __: {}


@contextmanager
def unit(kind: str, folder: Path) -> Iterator[Unit]:
    """An emulated device of this host's own instruction set."""
    device = start(Spec(f"bench-{kind}", "adb" if kind == "adb" else "ssh", "x86-64"), folder, orphan="dies")
    try:
        yield device
    finally:
        device.down()


@contextmanager
def adb_link(folder: Path) -> Iterator[Link]:
    """`adb push` of the adb that our agent's server is, through a server on a port, as people have it."""

    def push(port: int, source: Path, name: str, *options: str) -> None:
        run([*adb, "-s", f"127.0.0.1:{port}", "push", *options, str(source), f"/data/local/tmp/{name}"], environment)

    def pull(there: str, here: Path) -> None:
        run([*adb, "-s", f"127.0.0.1:{device.port}", "pull", there, str(here)], environment)

    def push_newer(port: int, source: Path, name: str) -> None:
        push(port, source, name, "--sync")

    def agent_at(port: int) -> PosixAgent:
        return AdbAgent("phone", "x86-64", serials=(f"127.0.0.1:{port}",))

    environment = {**os.environ, "HOME": str(folder), "ADB_MDNS": "0"}
    plain = Endpoint(port=free_port())
    adb = [adb_binary(), "-P", str(plain.port)]
    server = AdbServer()
    with unit("adb", folder / "device") as device, counting_relay(device.port) as relay:
        own = subprocess.Popen([*adb, "server", "nodaemon"], env=environment, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: protocol_version(plain), "adb's server does not answer")  # else a client starts another
            for port in (device.port, relay.port):
                run([*adb, "connect", f"127.0.0.1:{port}"], environment)
                run([*adb, "-s", f"127.0.0.1:{port}", "wait-for-device"], environment)
            with server:
                peers = {"adb push": push, "adb push --sync": push_newer}
                yield Link(device.port, relay, agent_at, peers, ("adb push --sync",), ("adb pull", pull))
        finally:
            own.kill()
            own.wait()
            stop_server(server.folder)


@contextmanager
def ssh_link(folder: Path) -> Iterator[Link]:
    """`rsync -a` and `scp -r` over the same daemon."""
    tree = group_tree("peers")
    environment, tools = environment_of(tree), tree / "usr/bin"
    known, key = folder / "known_hosts", folder / "user_key"
    options = ["-i", str(key), "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes", "-F", "none"]

    def rsync(port: int, source: Path, name: str) -> None:
        shell = shlex.join([str(tools / "ssh"), "-p", str(port), *options])
        run([str(tools / "rsync"), "-a", "-e", shell, f"{source}/", f"{USER}@127.0.0.1:{name}/"], environment)

    def scp(port: int, source: Path, name: str) -> None:
        where = ["-P", str(port), *options, "-S", str(tools / "ssh")]
        run([str(tools / "scp"), "-q", "-r", *where, str(source), f"{USER}@127.0.0.1:{name}"], environment)

    def pull(there: str, here: Path) -> None:
        where = ["-P", str(device.port), *options, "-S", str(tools / "ssh")]
        run([str(tools / "scp"), "-q", *where, f"{USER}@127.0.0.1:{there}", str(here)], environment)

    def agent_at(port: int) -> PosixAgent:
        return SshAgent("board", "x86-64", address=Address("127.0.0.1", port, USER, known, key))

    with unit("ssh", folder) as device, counting_relay(device.port) as relay:
        known.write_text(known_host(folder, device.port) + known_host(folder, relay.port))
        yield Link(
            device.port, relay, agent_at, {"rsync -a": rsync, "scp -r": scp}, ("rsync -a",), ("scp", pull), writes_of
        )


def writes_of(agent: PosixAgent, scratch: Path) -> dict[str, float]:
    """D13: seconds for one large file, by the size of a single write, and as the agent sends it."""
    if not isinstance(agent, SshAgent):
        return {}
    path = scratch / "large"
    path.write_bytes(random.Random(13).randbytes(LARGE_BYTES))
    taken = {}
    for size in WRITES:
        begun = time.monotonic()
        with path.open("rb") as source, agent._link.files("write", LARGE_BYTES) as files:
            with files.open(agent._path("jobs/large"), "wb") as target:
                target.set_pipelined(True)
                while piece := source.read(size):
                    target.write(piece)
            files.remove(agent._path("jobs/large"))
        taken[str(size)] = time.monotonic() - begun
    begun = time.monotonic()
    agent._send(path, "jobs/large", executable=False)
    taken["lockstep"] = time.monotonic() - begun
    return taken


def run(command: list[str], environment: dict[str, str]) -> None:
    """A peer; its words when it fails."""
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} left with {done.returncode}: {done.stderr.decode(errors='replace')[-800:]}")
