"""What the farm itself costs a job: many scripted devices through the real queue, the real workers and the real store.

    python bench/farm_scale.py [--devices 100 1000] [--jobs 20] [--json FILE]

Targets: CPU per job ≤ 15 ms · growth exponent of CPU ≤ 1.05 from the fewest to the most devices · memory bounded.
A scripted device answers at once, so all that is measured is ours, Celery's and Valkey's: user and system time of
the controller, the workers and the broker from the moment the workers are ready until the last job has ended. Each
size runs in a process and a state folder of its own. No peer runs a comparable durable queue, so none stands beside.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from farm.jobs import JobSpec, RunSpec
from farm.session import FarmSession
from farm.store import create_run

HERE = Path(__file__).resolve()
TICKS = os.sysconf("SC_CLK_TCK")
MAX_CPU_MS = 15.0
MAX_EXPONENT = 1.05
MAX_GROWTH_MB = 256
"""How much more memory the largest farm may take than the smallest one, all processes together."""


def answer(spec: dict[str, Any], guard: Any) -> dict[str, Any]:
    """The scripted device: the executor that the workers import."""
    guard()
    return {"case": spec["case"], "digest": spec["digest"]}


def main(words: list[str]) -> int:
    """Print the table, write the figures; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[100, 1000], help="sizes of the farm, ascending")
    parser.add_argument("--jobs", type=int, default=20, help="jobs of each device")
    parser.add_argument("--slots", type=int, default=2, help="jobs at a time")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.one:
        print(json.dumps(one_farm(asked.one, asked.jobs, asked.slots)))
        return 0
    runs = [in_its_own_process(count, asked.jobs, asked.slots) for count in asked.devices]
    small, large = runs[0], runs[-1]
    figures: dict[str, Any] = {"runs": runs, "cpu_ms_per_job": large["cpu_ms_per_job"]}
    if len(runs) > 1:
        figures["growth_exponent"] = math.log(large["cpu_s"] / small["cpu_s"]) / math.log(large["jobs"] / small["jobs"])
        figures["memory_growth_mb"] = large["memory_mb"] - small["memory_mb"]
    table(figures)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1))
    return 1 if missed(figures) else 0


def in_its_own_process(devices: int, jobs: int, slots: int) -> dict[str, Any]:
    """One size, measured apart."""
    with tempfile.TemporaryDirectory(prefix="lsscale-") as state:
        done = subprocess.run(
            [sys.executable, HERE, "--one", str(devices), "--jobs", str(jobs), "--slots", str(slots)],
            cwd=HERE.parents[1],
            env={**os.environ, "LOCKSTEP_STATE": state, "PYTHONPATH": f"{HERE.parent}:{HERE.parents[1]}"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def one_farm(devices: int, jobs: int, slots: int) -> dict[str, Any]:
    """Run ``devices`` × ``jobs`` jobs; seconds of CPU by part, and the largest memory of each part in MB."""
    plan = [
        JobSpec(case=f"case-{number}", device=f"device-{device}", position=number, spec=spec(device, number))
        for device in range(devices)
        for number in range(jobs)
    ]
    with FarmSession(executor="farm_scale:answer", slots=slots) as session:
        session.wait_ready()
        run_id = create_run(session.store, RunSpec(suite="scale", engine="scripted", command="bench"), plan)
        before, begun = usage(), time.monotonic()
        summary = session.run(run_id)
        wall, after = time.monotonic() - begun, usage()
        memory = {part: seen["memory_mb"] for part, seen in after.items()}
    ended = Counter(str(job.status) for job in summary.jobs)
    assert ended == {"done": len(plan)}, ended
    cpu = {part: after[part]["cpu_s"] - before[part]["cpu_s"] for part in after}
    total = sum(cpu.values())
    return {
        "devices": devices,
        "jobs": len(plan),
        "wall_s": wall,
        "cpu_s": total,
        "cpu_ms_per_job": 1000.0 * total / len(plan),
        "cpu_by_part": cpu,
        "memory_mb": sum(memory.values()),
        "memory_by_part": memory,
    }


def spec(device: int, number: int) -> dict[str, Any]:
    """What a job carries: about as much text as a real one."""
    return {"case": f"case-{number}", "digest": f"{device:016x}{number:016x}", "files": ["f" * 64] * 20}


def usage() -> dict[str, dict[str, float]]:
    """CPU seconds and peak memory of the controller (this process), the workers and the broker, by /proc."""
    parts: dict[str, dict[str, float]] = {
        part: {"cpu_s": 0.0, "memory_mb": 0.0} for part in ("controller", "workers", "broker")
    }
    state = os.environ["LOCKSTEP_STATE"]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mine = f"LOCKSTEP_STATE={state}\0".encode() in (entry / "environ").read_bytes() or state in command
            part = part_of(int(entry.name), command)
            if mine and part:
                parts[part]["cpu_s"] += cpu_of(entry)
                parts[part]["memory_mb"] += peak_of(entry)
        except OSError:
            continue
    return parts


def part_of(pid: int, command: str) -> str | None:
    """Which part of the farm a process is."""
    if pid == os.getpid():
        return "controller"
    words = {"farm.worker": "workers", "farm.valkey": "broker", "valkey": "broker"}
    return next((part for word, part in words.items() if word in command), None)


def cpu_of(entry: Path) -> float:
    """User and system seconds of a process and of its children that have ended."""
    fields = (entry / "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def peak_of(entry: Path) -> float:
    """The most memory a process ever had resident, MB."""
    lines = (entry / "status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM:")), 0.0)


def missed(figures: dict[str, Any]) -> list[str]:
    """The targets that were not reached, in words."""
    faults = []
    if figures["cpu_ms_per_job"] > MAX_CPU_MS:
        faults.append(f"CPU per job is above {MAX_CPU_MS} ms")
    if figures.get("growth_exponent", 0.0) > MAX_EXPONENT:
        faults.append(f"the growth exponent is above {MAX_EXPONENT}")
    if figures.get("memory_growth_mb", 0.0) > MAX_GROWTH_MB:
        faults.append(f"memory grows by more than {MAX_GROWTH_MB} MB")
    return faults


def table(figures: dict[str, Any]) -> None:
    """The figures for people, each beside its target."""
    print(
        f"{'devices':>8} {'jobs':>7} {'wall':>8} {'CPU/job':>9} {'control':>8} {'workers':>8} {'broker':>7} {'peak':>7}"
    )
    for run in figures["runs"]:
        by_part = [1000.0 * run["cpu_by_part"][part] / run["jobs"] for part in ("controller", "workers", "broker")]
        print(
            f"{run['devices']:8} {run['jobs']:7} {run['wall_s']:6.1f} s {run['cpu_ms_per_job']:6.2f} ms"
            f" {by_part[0]:8.2f} {by_part[1]:8.2f} {by_part[2]:7.2f} {run['memory_mb']:4.0f} MB"
        )
    print(f"  CPU per job          {figures['cpu_ms_per_job']:8.2f} ms   <= {MAX_CPU_MS:g} ms")
    if "growth_exponent" in figures:
        print(f"  growth exponent      {figures['growth_exponent']:8.3f}      <= {MAX_EXPONENT:g}")
        print(f"  growth of memory     {figures['memory_growth_mb']:8.0f} MB   <= {MAX_GROWTH_MB} MB")
    for fault in missed(figures):
        print(f"  missed: {fault}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
