"""What a warm gate costs: wall time, what the farm adds to the runners, and the bytes a passing case moves.

    python bench/gate_speed.py [--runs 3] [--json FILE]

Targets: wall ≤ 75 s · wall − (time in runners ÷ slots) ≤ 10 s · bytes of a passing case ≤ 1 % of its layers' bytes.
No peer does this whole job, so none stands beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LOCKSTEP = Path(sys.executable).parent / "lockstep"


def main(words: list[str]) -> int:
    """Print the table, write the figures; 1 when a gate does not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="counted runs after one that warms the caches")
    parser.add_argument("--json", type=Path, help="write the figures here")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        runs = [one_gate(Path(folder) / str(number)) for number in range(asked.runs + 1)][1:]
    figures = {name: statistics.median(run[name] for run in runs) for name in runs[0] if name != "phases"}
    figures["phases"] = runs[-1]["phases"]
    table(figures, len(runs))
    if asked.json:
        asked.json.write_text(json.dumps({"runs": runs, "median": figures}, indent=1))
    return 0 if all(run["exit_code"] == 0 for run in runs) else 1


def one_gate(out: Path) -> dict[str, Any]:
    """One whole gate as a user runs it."""
    begun = time.monotonic()
    done = subprocess.run([LOCKSTEP, "gate", "--quiet", "--out", out], stdout=subprocess.DEVNULL, check=False)
    wall = time.monotonic() - begun
    verdict = json.loads((out / "latest" / "verdict.json").read_text())
    run = verdict["run"]
    return {
        "exit_code": done.returncode,
        "wall_s": wall,
        "runner_s": run["runner_seconds"],
        "slots": run["slots"],
        "overhead_s": wall - run["runner_seconds"] / run["slots"],
        "traffic_percent": max(share(case) for case in verdict["cases"]),
        "phases": {entry["name"]: entry["seconds"] for entry in run["phases"]},
    }


def share(case: dict[str, Any]) -> float:
    """Bytes a case moved, both directions, in percent of the bytes of its layers."""
    moved = case["traffic"]["to_device"] + case["traffic"]["from_device"]
    return 100.0 * float(moved) / float(case["traffic"]["layer_bytes"])


def table(figures: dict[str, Any], runs: int) -> None:
    """The figures for people, each beside its target."""
    print(f"warm gate, median of {runs} runs")
    rows = [
        ("wall", f"{figures['wall_s']:.1f} s", "<= 75 s"),
        ("in runners", f"{figures['runner_s']:.1f} s on {figures['slots']:.0f} slots", ""),
        ("wall - runners/slots", f"{figures['overhead_s']:.1f} s", "<= 10 s"),
        ("largest traffic of a case", f"{figures['traffic_percent']:.2f} % of its layers", "<= 1 %"),
    ]
    for name, value, target in rows:
        print(f"  {name:28} {value:24} {target}")
    for name, seconds in figures["phases"].items():
        print(f"    {name:26} {seconds:6.1f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
