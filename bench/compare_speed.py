"""How fast two tensors are compared: ours beside Polygraphy's default comparison, np.allclose and the memory itself.

``python bench/compare_speed.py [--megabytes 400] [--runs 5] [--json FILE]``: pairs of FP32 tensors in memory, one
thread; the figure is bytes of both sides a second, best of the runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from ci.sensitivity.judges import polygraphy
from consistency.metrics.measure import measure
from consistency.tensors import compare_tensors
from consistency.tensors.records import Tensor
from consistency.thresholds import profile
from farm import kernel


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400, help="of both sides together")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("build/bench/compare_speed.json"))
    options = parser.parse_args()
    rng = np.random.default_rng(7)
    count = options.megabytes * 1_000_000 // 8
    ref = rng.standard_normal(count, dtype=np.float32)
    got = ref + np.float32(1e-6) * rng.standard_normal(count, dtype=np.float32)
    compiled = kernel.install()
    forms: dict[str, Callable[[], object]] = {
        "one-thread read of both sides": lambda: (ref.view(np.uint64).max(), got.view(np.uint64).max()),
        "measure (all metrics)": lambda: measure(got, ref),
        "compare_tensors (verdict)": lambda: _verdict(got, ref),
        "np.allclose": lambda: np.allclose(got, ref),
        "Polygraphy, defaults": lambda: _as_polygraphy(got, ref),
    }
    best = {name: _best(run, options.runs if "Poly" not in name else 1) for name, run in forms.items()}
    speeds = {name: 8 * count / seconds / 1e9 for name, seconds in best.items()}
    figures = {
        "compiled": compiled,
        "polygraphy": polygraphy() is not None,
        "gigabytes_a_second": speeds,
        "measure_of_read_bandwidth": speeds["measure (all metrics)"] / speeds["one-thread read of both sides"],
        "verdict_times_polygraphy": speeds["compare_tensors (verdict)"] / speeds["Polygraphy, defaults"],
        "extra_memory_of_a_mapped_gigabyte": _mapped(),
    }
    _print(figures, speeds)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1))


def _best(run: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def _verdict(got: np.ndarray, ref: np.ndarray) -> object:
    tensors = [Tensor("x", "float32", side.shape, side, op="Conv") for side in (ref, got)]
    return compare_tensors(tensors[0], tensors[1], profile("fp32"))


def _as_polygraphy(got: np.ndarray, ref: np.ndarray) -> object:
    """The real package with its defaults (``make test`` installs it)."""
    deviates = polygraphy()
    return deviates(ref, got) if deviates else None


def _mapped() -> float:
    """Growth of the resident set, less the mapped pages themselves, while 1 GB a side is compared from files (MB)."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [np.lib.format.open_memmap(f"{folder}/{name}.npy", "w+", np.float32, (1 << 28,)) for name in "ab"]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        measure(sides[0], sides[1])
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(0.0, (after - before) / 1024 - 2048)


def _print(figures: dict[str, object], speeds: dict[str, float]) -> None:
    table = Table(title=f"comparison of FP32 pairs ({'compiled' if figures['compiled'] else 'numpy'} form)")
    table.add_column("what")
    table.add_column("GB/s", justify="right")
    for name, speed in speeds.items():
        table.add_row(name, f"{speed:.2f}")
    console = Console()
    console.print(table)
    console.print(f"of the read bandwidth: {figures['measure_of_read_bandwidth']:.2f}; ", end="")
    console.print(f"verdict ÷ Polygraphy: {figures['verdict_times_polygraphy']:.1f}; ", end="")
    console.print(f"memory beyond the mapped pages: {figures['extra_memory_of_a_mapped_gigabyte']:.0f} MB")


if __name__ == "__main__":
    main()
