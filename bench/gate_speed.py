"""What a warm gate costs: wall time, what the farm adds to the runners, and the bytes a passing case moves.

    python bench/gate_speed.py [--runs 3] [--fleet default|links|arm-links] [--json FILE]

Of the default fleet: wall ≤ 75 s · wall − (time in runners ÷ slots) ≤ 10 s · bytes of a passing case ≤ 1 % of its
layers' bytes, of one with a bad layer, on devices that have nothing of it, ≤ 5 %. Of two adb and two ssh devices
(``lockstep emulate``): wall − (time in runners ÷ slots) ≤ 15 s. ``arm-links`` are the same, one of each on an Arm CPU:
there every process that a script starts is an emulator's start, which no real device has. No peer does this whole job,
so none stands beside it.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

#: A convolution in the middle of the voice model, without its bias.
BAD_LAYER = "drop_bias@/encoder.1/Conv_output_0"
LOCKSTEP = Path(sys.executable).parent / "lockstep"


def main(words: list[str]) -> int:
    """Print the table, write the figures; 1 when a gate does not pass or a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="counted runs after one that warms the caches")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--fleet", choices=tuple(FLEETS), action="append", help="only this one (default: each)")
    asked = parser.parse_args(words)
    found: dict[str, Any] = {}
    for name in asked.fleet or FLEETS:
        with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder, FLEETS[name](Path(folder)) as options:
            runs = [one_gate(Path(folder) / str(number), options) for number in range(asked.runs + 1)][1:]
        figures = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "phases"}
        figures["phases"] = runs[-1]["phases"]
        if name == "default":
            figures["bad_layer_percent"] = one_bad_layer()
        table(name, figures, len(runs))
        found[name] = {"runs": runs, "median": figures}
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    over = [f"missed: {name}: {fault}" for name, fleet in found.items() for fault in missed(name, fleet["median"])]
    for fault in over:
        print(fault, file=sys.stderr)
    return 0 if not over and all(run["exit_code"] == 0 for fleet in found.values() for run in fleet["runs"]) else 1


@contextmanager
def default_fleet(_folder: Path) -> Iterator[list[str]]:
    """The six chips of ``devices.yaml``."""
    yield []


@contextmanager
def links_fleet(folder: Path, x86_64: int, arm64: int) -> Iterator[list[str]]:
    """So many adb and as many ssh devices of each, started for this measurement and ended after it."""
    devices, park = folder / "devices.yaml", folder / "park"
    emulate: list[str | Path] = [LOCKSTEP, "emulate"]
    counts = {
        f"--{kind}-{abi}": number for kind in ("adb", "ssh") for abi, number in (("x86-64", x86_64), ("arm64", arm64))
    }
    asked = [word for option, number in counts.items() for word in (option, str(number))]
    try:
        subprocess.run([*emulate, "up", "--folder", park, "--write", devices, *asked], stdout=sys.stderr, check=True)
        yield ["--devices", str(devices)]
    finally:
        subprocess.run([*emulate, "down", "--folder", park], stdout=sys.stderr, check=True)


FLEETS: dict[str, Callable[[Path], AbstractContextManager[list[str]]]] = {
    "default": default_fleet,
    "links": functools.partial(links_fleet, x86_64=2, arm64=0),
    "arm-links": functools.partial(links_fleet, x86_64=1, arm64=1),
}
#: Figure -> the most it may be, with its unit; of ``arm-links`` only what it shares with every fleet.
TARGETS: dict[str, dict[str, tuple[float, str]]] = {
    "default": {
        "wall_s": (75, "s"),
        "overhead_s": (10, "s"),
        "bad_layer_percent": (5, "%"),
        "traffic_percent": (1, "%"),
    },
    "links": {"overhead_s": (15, "s"), "traffic_percent": (1, "%")},
    "arm-links": {"traffic_percent": (1, "%")},
}


def missed(fleet: str, figures: dict[str, Any]) -> list[str]:
    """The targets of a fleet that were not reached, in words."""
    return [
        f"{name} is {figures[name]:.2f}, at most {most} {unit} is asked for"
        for name, (most, unit) in TARGETS[fleet].items()
        if figures[name] > most
    ]


def one_gate(out: Path, options: list[str]) -> dict[str, Any]:
    """One whole gate as a user runs it."""
    begun = time.monotonic()
    done = subprocess.run([LOCKSTEP, "gate", "--quiet", "--out", out, *options], stdout=subprocess.DEVNULL, check=False)
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


def one_bad_layer() -> float:
    """The largest share of its layers' bytes that a case with one bad layer moves, on devices without a cache."""
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        out = Path(folder) / "out"
        command: list[str | Path] = [
            LOCKSTEP,
            "gate",
            "--quiet",
            "--out",
            out,
            "--inject",
            BAD_LAYER,
            "--case",
            "vad-noise",
        ]
        environment = {**os.environ, "LOCKSTEP_STATE": str(Path(folder) / "state")}
        subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=False)  # 1: it finds the layer
        return max(share(case) for case in json.loads((out / "latest" / "verdict.json").read_text())["cases"])


def share(case: dict[str, Any]) -> float:
    """Bytes a case moved, both directions, in percent of the bytes of its layers."""
    moved = case["traffic"]["to_device"] + case["traffic"]["from_device"]
    return 100.0 * float(moved) / float(case["traffic"]["layer_bytes"])


def table(fleet: str, figures: dict[str, Any], runs: int) -> None:
    """The figures for people, each beside its target."""
    print(f"warm gate, {fleet} fleet, median of {runs} runs")
    rows = [
        ("wall_s", "wall", "{:.1f} s"),
        ("runner_s", "in runners", f"{{:.1f}} s on {figures['slots']:.0f} slots"),
        ("overhead_s", "wall - runners/slots", "{:.1f} s"),
        ("traffic_percent", "largest traffic of a case", "{:.2f} % of its layers"),
        ("bad_layer_percent", "with one bad layer", "{:.2f} % of its layers"),
    ]
    for key, name, words in rows:
        if key in figures:
            most, unit = TARGETS[fleet].get(key, (None, ""))
            print(f"  {name:28} {words.format(figures[key]):24} {f'<= {most} {unit}' if most else ''}")
    for name, seconds in figures["phases"].items():
        print(f"    {name:26} {seconds:6.1f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
