"""What bringing an engine to a device costs, beside the tools that people use for it, over the same link.

    python bench/deploy_speed.py [--runs 3] [--json FILE]

An emulated Android device (real adbd) and an emulated Linux device (real sshd) on loopback. 60 MB in three large files
and 500 small ones: the first deployment beside `adb push DIR`, `rsync -a` and `scp -r`, an unchanged one, and one with
a changed file of 1 KB. Bytes are counted on the wire, both directions together, by a relay in a
pass of its own: no time is taken through it. Our figures include the verification
by SHA-256 on the device and the atomic rename; `adb push` and `scp` do neither.

D13: 64 MiB over ssh in writes of several sizes, beside what the agent does. Then 64 MiB back, verified by SHA-256 on
both sides as every result is, beside `adb pull` and `scp`, which verify nothing.

Targets: first ≥ 0.9 × the peer's speed · unchanged: one round trip, ≤ 4 KiB · 1 KB changed: ≤ 8 KiB · D13: within 2 ×
the best size · back over ssh: ≥ 40 MB/s.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agents.adb import AdbAgent
from agents.adbdaemon import Endpoint, protocol_version
from agents.adbserver import AdbServer, adb_binary, stop_server
from agents.deployment import Blob, BundleFiles
from agents.emulation.linux import USER, known_host
from agents.emulation.spec import Spec
from agents.emulation.units import Unit, start
from agents.posix import PosixAgent
from agents.ssh import SshAgent
from agents.sshlogin import Address
from engine.contract.errors import LockstepError
from engine.supervising import free_port
from engine.toolchain import environment_of, group_tree
from tests.agents.relay import Relay, counting_relay
from tests.waiting import wait_until

LARGE = 3 * [20_000_000]
SMALL = 500
WRITES = (4096, 16384, 32768, 65536, 262144)
D13_BYTES = 64 * 2**20


def main(words: list[str]) -> int:
    """Print the tables, write the figures; 1 when a target is missed, 0 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each, in turns; the median counts")
    parser.add_argument("--json", type=Path, help="write the figures here")
    asked = parser.parse_args(words)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ls-bench-") as scratch:
        os.environ.update(LOCKSTEP_STATE=f"{scratch}/state")
        for name, link in (("adb", adb_link), ("ssh", ssh_link)):
            try:
                with link(Path(scratch) / name) as bench:
                    figures[name] = bench.measure(asked.runs, Path(scratch))
            except LockstepError as error:
                figures[name] = {"not measured": str(error)}
    table(figures)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1))
    return (
        0
        if all(holds for entry in figures.values() for holds in entry.get("holds", {"measured": False}).values())
        else 1
    )


@dataclass
class Bench:
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

    def measure(self, runs: int, scratch: Path) -> dict[str, Any]:
        """Medians in seconds, and bytes."""
        first: dict[str, list[float]] = {name: [] for name in ("lockstep", *self.peers)}
        again: dict[str, list[float]] = {}
        with self.agent_at(self.port) as agent:
            for run in range(runs):
                folder = make_content(scratch / f"content-{run}", run)
                turns = list(first)
                for name in turns[run % len(turns) :] + turns[: run % len(turns)]:  # who is first finds the disk busy
                    first[name].append(self._act(agent, name, self.port, folder))
                self._again(agent, self.port, folder, lambda name, took: again.setdefault(name, []).append(took))
            writes = self.extra(agent, scratch)
            reads = self._reads(agent, scratch, runs)
        sent: dict[str, int] = {}
        with self.agent_at(self.relay.port) as agent:
            folder = make_content(scratch / "content-counted", runs)
            for name in ("lockstep", *self.renews):
                self._act(agent, name, self.relay.port, folder)
            self.relay.take()
            self._again(agent, self.relay.port, folder, lambda name, _: sent.update({name: sum(self.relay.take())}))
        return self._figures(first, again, sent, writes, reads)

    def _reads(self, agent: PosixAgent, scratch: Path, runs: int) -> dict[str, float]:
        """Seconds for one large file from the device, in turns; the medians."""
        name, pull = self.pull
        data = random.Random(14).randbytes(D13_BYTES)
        (scratch / "large").write_bytes(data)
        agent._send(scratch / "large", "jobs/large", executable=False)
        taken: dict[str, list[float]] = {"lockstep": [], name: []}
        for _ in range(runs):
            begun = time.monotonic()
            whole = agent.fetch("jobs/large", D13_BYTES) == data
            taken["lockstep"].append(time.monotonic() - begun)
            begun = time.monotonic()
            pull(f"{agent.home}/jobs/large", scratch / "back")
            taken[name].append(time.monotonic() - begun)
            if not whole or (scratch / "back").read_bytes() != data:
                sys.exit("what came back is not what was sent")
        return {name: statistics.median(times) for name, times in taken.items()}

    def _again(self, agent: PosixAgent, port: int, folder: Path, note: Callable[[str, float], None]) -> None:
        names = ("lockstep", *self.renews)
        for name in names:
            note(f"{name} unchanged", self._act(agent, name, port, folder))
        (folder / "kernels/kernel_007.bin").write_bytes(random.Random(folder.name).randbytes(1024))
        for name in names:
            note(f"{name} 1 KB changed", self._act(agent, name, port, folder))

    def _act(self, agent: PosixAgent, name: str, port: int, folder: Path) -> float:
        """Seconds of one deployment."""
        if name != "lockstep":
            begun = time.monotonic()
            self.peers[name](port, folder, f"{name.replace(' ', '')}-{folder.name}")
            return time.monotonic() - begun
        files = dict(content_of(folder))  # a run has the hashes from its plan
        large = [blob for path, blob in files.items() if path.startswith("models/")]
        small = {path: blob for path, blob in files.items() if not path.startswith("models/")}
        names = "".join(f"{path} {blob.sha256}\n" for path, blob in sorted(small.items()))
        bundle = BundleFiles(hashlib.sha256(names.encode()).hexdigest(), small)
        begun = time.monotonic()
        agent.deploy(large, lambda: None, bundle)
        return time.monotonic() - begun

    def _figures(
        self,
        first: Mapping[str, list[float]],
        again: Mapping[str, list[float]],
        sent: Mapping[str, int],
        writes: Mapping[str, float],
        reads: Mapping[str, float],
    ) -> dict[str, Any]:
        seconds = {name: statistics.median(times) for name, times in first.items()}
        ratios = {name: seconds[name] / seconds["lockstep"] for name in self.peers}
        holds = {f"first >= 0.9 x {name}": ratio >= 0.9 for name, ratio in ratios.items()}
        holds["unchanged <= 4 KiB"] = sent["lockstep unchanged"] <= 4096
        holds["1 KB changed <= 8 KiB"] = sent["lockstep 1 KB changed"] <= 8192
        if writes:
            best = min(taken for name, taken in writes.items() if name != "lockstep")
            holds["D13 <= 2 x best"] = writes["lockstep"] <= 2 * best
            holds["back >= 40 MB/s"] = D13_BYTES / reads["lockstep"] >= 40e6
        renewed = {name: {"seconds": statistics.median(times), "bytes": sent[name]} for name, times in again.items()}
        return {
            "first_s": seconds,
            "speed_against": ratios,
            "again": renewed,
            "writes_s": writes,
            "reads_s": reads,
            "holds": holds,
        }


def make_content(folder: Path, seed: int) -> Path:
    """60 MB in three models, and 500 files of half a KiB to 8 KiB."""
    shutil.rmtree(folder, ignore_errors=True)
    rng = random.Random(seed)
    for name in ("models", "kernels"):
        (folder / name).mkdir(parents=True)
    for number, size in enumerate(LARGE):
        (folder / f"models/model_{number}.bin").write_bytes(rng.randbytes(size))
    for number in range(SMALL):
        (folder / f"kernels/kernel_{number:03}.bin").write_bytes(rng.randbytes(rng.randrange(512, 8192)))
    return folder


def content_of(folder: Path) -> Iterator[tuple[str, Blob]]:
    """Every file with its hash."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield str(path.relative_to(folder)), Blob(path, hashlib.sha256(data).hexdigest(), len(data))


# -- links -------------------------------------------------------------------------------------------


@contextmanager
def unit(kind: str, folder: Path) -> Iterator[Unit]:
    """An emulated device of this host's own instruction set."""
    device = start(Spec(f"bench-{kind}", "adb" if kind == "adb" else "ssh", "x86-64"), folder, orphan="dies")
    try:
        yield device
    finally:
        device.down()


@contextmanager
def adb_link(folder: Path) -> Iterator[Bench]:
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
                yield Bench(device.port, relay, agent_at, peers, ("adb push --sync",), ("adb pull", pull))
        finally:
            own.kill()
            own.wait()
            stop_server(server.folder)


@contextmanager
def ssh_link(folder: Path) -> Iterator[Bench]:
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
        yield Bench(
            device.port, relay, agent_at, {"rsync -a": rsync, "scp -r": scp}, ("rsync -a",), ("scp", pull), writes_of
        )


def writes_of(agent: PosixAgent, scratch: Path) -> dict[str, float]:
    """D13: seconds for one large file, by the size of a single write, and as the agent sends it."""
    if not isinstance(agent, SshAgent):
        return {}
    path = scratch / "large"
    path.write_bytes(random.Random(13).randbytes(D13_BYTES))
    taken = {}
    for size in WRITES:
        begun = time.monotonic()
        with path.open("rb") as source, agent._link.files("write", D13_BYTES) as files:
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


# -- for people --------------------------------------------------------------------------------------


def table(figures: Mapping[str, Any]) -> None:
    """Each link with its peers and targets."""
    whole = sum(LARGE)
    for link, entry in figures.items():
        if "holds" not in entry:
            print(f"{link}: not measured: {entry['not measured']}")
            continue
        print(f"{link}: {whole // 10**6} MB in {len(LARGE)} files and {SMALL} small ones")
        for name, seconds in entry["first_s"].items():
            ratio = f"{entry['speed_against'][name]:.2f} x of it is ours" if name in entry["speed_against"] else ""
            print(f"  first    {name:22} {seconds:7.2f} s {whole / seconds / 1e6:7.0f} MB/s   {ratio}")
        for name, taken in entry["again"].items():
            print(f"  again    {name:32} {taken['seconds']:7.3f} s {taken['bytes']:10.0f} bytes")
        for name, seconds in entry["writes_s"].items():
            print(f"  64 MiB   writes of {name:12} {seconds:7.2f} s {D13_BYTES / seconds / 1e6:7.0f} MB/s")
        for name, seconds in entry["reads_s"].items():
            print(f"  64 MiB   back by {name:15} {seconds:7.2f} s {D13_BYTES / seconds / 1e6:7.0f} MB/s")
        for words, holds in entry["holds"].items():
            print(f"  target   {words:32} {'yes' if holds else 'NO'}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
