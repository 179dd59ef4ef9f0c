"""What bringing an engine to a device costs, beside the tools that people use for it, over the same link.

    python bench/deploy_speed.py [--runs 3] [--json FILE]

An emulated Android device (real adbd) and an emulated Linux device (real sshd) on loopback, their storage in memory
where there is some. 60 MB in three large files and 500 small ones: the first deployment beside `adb push DIR`,
`rsync -a` and `scp -r`, an unchanged one, and one with a changed file of 1 KB. Bytes are counted on the wire, both
directions together, by a relay in a pass of its own: no time is taken through it. Our figures include the verification
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
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _links import LARGE_BYTES, Link, adb_link, ssh_link

from agents.deployment import Blob, BundleFiles
from agents.posix import PosixAgent
from engine.contract.errors import LockstepError

LARGE = 3 * [20_000_000]
SMALL = 500
ROOM = 2**30
#: $1 our folder on the device, $2 how the names of the peers' folders end, which lie beside it.
CLEAR = 'cd -- "$1" && rm -rf blobs/* bundles/* bundles/.[!.]* ../*-"$2"'


def main(words: list[str]) -> int:
    """Print the tables, write the figures; 1 when a target is missed, 0 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each, in turns; the median counts")
    parser.add_argument("--json", type=Path, help="write the figures here")
    asked = parser.parse_args(words)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="ls-bench-", dir=memory()) as scratch:
        os.environ.update(LOCKSTEP_STATE=f"{scratch}/state")
        for name, link in (("adb", adb_link), ("ssh", ssh_link)):
            try:
                with link(Path(scratch) / name) as there:
                    figures[name] = Bench(there).measure(asked.runs, Path(scratch))
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


def memory() -> str | None:
    """A file system in memory with room for this, None where there is none.

    ext4 looks past every file that was deleted in the last minutes when it makes a new one: 500 small files cost 15 ms
    or 200 ms by what ran before.
    """
    shared = Path("/dev/shm")
    return str(shared) if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > ROOM else None


@dataclass
class Bench:
    """What is measured over one link."""

    link: Link

    def measure(self, runs: int, scratch: Path) -> dict[str, Any]:
        """Medians in seconds, and bytes."""
        first: dict[str, list[float]] = {name: [] for name in ("lockstep", *self.link.peers)}
        again: dict[str, list[float]] = {}
        with self.link.agent_at(self.link.port) as agent:
            for run in range(runs):
                folder = make_content(scratch / f"content-{run}", run)
                turns = list(first)
                for name in turns[run % len(turns) :] + turns[: run % len(turns)]:  # who is first finds the disk busy
                    first[name].append(self._act(agent, name, self.link.port, folder))
                self._again(agent, self.link.port, folder, lambda name, took: again.setdefault(name, []).append(took))
                agent._script(CLEAR, agent.home, folder.name, seconds=60)
                shutil.rmtree(folder)
            writes = self.link.extra(agent, scratch)
            reads = self._reads(agent, scratch, runs)
        sent: dict[str, int] = {}

        def taken() -> int:
            return sum(self.link.relay.take())

        with self.link.agent_at(self.link.relay.port) as agent:
            folder = make_content(scratch / "content-counted", runs)
            for name in ("lockstep", *self.link.renews):
                self._act(agent, name, self.link.relay.port, folder)
            taken()
            self._again(
                agent, self.link.relay.port, folder, lambda name, _: sent.update({name: sum(self.link.relay.take())})
            )
        return self._figures(first, again, sent, writes, reads)

    def _reads(self, agent: PosixAgent, scratch: Path, runs: int) -> dict[str, float]:
        """Seconds for one large file from the device, in turns; the medians."""
        name, pull = self.link.pull
        data = random.Random(14).randbytes(LARGE_BYTES)
        (scratch / "large").write_bytes(data)
        agent._send(scratch / "large", "jobs/large", executable=False)
        taken: dict[str, list[float]] = {"lockstep": [], name: []}
        for _ in range(runs):
            begun = time.monotonic()
            whole = agent.fetch("jobs/large", LARGE_BYTES) == data
            taken["lockstep"].append(time.monotonic() - begun)
            begun = time.monotonic()
            pull(f"{agent.home}/jobs/large", scratch / "back")
            taken[name].append(time.monotonic() - begun)
            if not whole or (scratch / "back").read_bytes() != data:
                sys.exit("what came back is not what was sent")
        return {name: statistics.median(times) for name, times in taken.items()}

    def _again(self, agent: PosixAgent, port: int, folder: Path, note: Callable[[str, float], None]) -> None:
        names = ("lockstep", *self.link.renews)
        for name in names:
            note(f"{name} unchanged", self._act(agent, name, port, folder))
        (folder / "kernels/kernel_007.bin").write_bytes(random.Random(folder.name).randbytes(1024))
        for name in names:
            note(f"{name} 1 KB changed", self._act(agent, name, port, folder))

    def _act(self, agent: PosixAgent, name: str, port: int, folder: Path) -> float:
        """Seconds of one deployment."""
        if name != "lockstep":
            begun = time.monotonic()
            self.link.peers[name](port, folder, f"{name.replace(' ', '')}-{folder.name}")
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
        ratios = {name: seconds[name] / seconds["lockstep"] for name in self.link.peers}
        holds = {f"first >= 0.9 x {name}": ratio >= 0.9 for name, ratio in ratios.items()}
        holds["unchanged <= 4 KiB"] = sent["lockstep unchanged"] <= 4096
        holds["1 KB changed <= 8 KiB"] = sent["lockstep 1 KB changed"] <= 8192
        if writes:
            best = min(taken for name, taken in writes.items() if name != "lockstep")
            holds["D13 <= 2 x best"] = writes["lockstep"] <= 2 * best
            holds["back >= 40 MB/s"] = LARGE_BYTES / reads["lockstep"] >= 40e6
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
            print(f"  64 MiB   writes of {name:12} {seconds:7.2f} s {LARGE_BYTES / seconds / 1e6:7.0f} MB/s")
        for name, seconds in entry["reads_s"].items():
            print(f"  64 MiB   back by {name:15} {seconds:7.2f} s {LARGE_BYTES / seconds / 1e6:7.0f} MB/s")
        for words, holds in entry["holds"].items():
            print(f"  target   {words:32} {'yes' if holds else 'NO'}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
