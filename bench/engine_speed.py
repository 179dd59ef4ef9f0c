"""Latency of `refrt` on the orientation CNN, one thread, with ONNX Runtime beside it in the same run.

The three take turns within each round, so that a busy machine slows all of them: ratios mean more than milliseconds.
The first run after each turn is warm-up and left out. "Instrumented" digests every layer and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engine.bundle import BuildSpec, build_bundle  # noqa: E402
from engine.contract.request import ModelFile, Request, TensorFile  # noqa: E402
from engine.contract.result import parse_result  # noqa: E402
from engine.digest import file_sha256  # noqa: E402
from engine.models.export import export_refrt  # noqa: E402
from engine.models.fetch import fetch_model  # noqa: E402
from engine.models.graph import read_model  # noqa: E402
from engine.places import cache_root  # noqa: E402
from farm.suites import load_suite  # noqa: E402

ROUNDS = 12
RUNS = 4  # per round, the first of them not counted
SHAPE = (1, 3, 224, 224)


def measure(rounds: int = ROUNDS) -> dict[str, Any]:
    """Medians in milliseconds, ratios, and every sample; keys end in their unit."""
    model_path = _model()
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    samples: dict[str, list[float]] = {"refrt_plain": [], "refrt_instrumented": [], "onnxruntime": []}
    with tempfile.TemporaryDirectory(prefix="engine-speed-") as scratch:
        runner = _Runner(Path(scratch), model_path, x)
        peer = _Peer(model_path, x)
        for _ in range(rounds):
            for kind, milliseconds in runner.turn().items():
                samples[f"refrt_{kind}"] += milliseconds
            samples["onnxruntime"] += peer.turn()
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return {
        "model": "orientation",
        "threads": 1,
        "abi": runner.abi,
        "onnxruntime_version": onnxruntime.__version__,
        "median_ms": medians,
        "least_ms": {name: min(values) for name, values in samples.items()},
        "plain_over_onnxruntime": medians["refrt_plain"] / medians["onnxruntime"],
        "instrumented_over_plain": medians["refrt_instrumented"] / medians["refrt_plain"],
        "samples_ms": samples,
    }


class _Runner:
    """The host's best build of `refrt`, called as an agent calls it."""

    def __init__(self, folder: Path, model: Path, x: np.ndarray) -> None:
        self.folder = folder
        flags = Path("/proc/cpuinfo").read_text()
        self.abi = "x86-64-v3" if all(f" {name}" in flags for name in ("avx2", "fma", "bmi2")) else "x86-64"
        command = (
            "{python}",
            "-m",
            "engine.native.build",
            "--abi",
            "{abi}",
            "--flavour",
            "canonical",
            "--out",
            "{out}",
        )
        spec = BuildSpec(command, ("engine/native/**", "setup/packages.yaml"))
        bundle = build_bundle("refrt", self.abi, ["refrt"], spec, ROOT, cache=cache_root(), python=sys.executable)
        self.program = bundle.root / "refrt"
        flat, tensor = folder / "model.refrt", folder / "x.bin"
        export_refrt(read_model(model), {"x": SHAPE}, flat)
        tensor.write_bytes(x.tobytes())
        request = Request(
            job="engine-speed",
            attempt=1,
            model=ModelFile(flat.name, file_sha256(flat), "refrt"),
            inputs=(TensorFile("x", "float32", SHAPE, tensor.name, file_sha256(tensor)),),
            iterations=RUNS,
        )
        (folder / "request.json").write_text(request.to_json())

    def turn(self) -> dict[str, list[float]]:
        """Milliseconds of each counted run, by kind of pass."""
        command = [str(self.program), "run", "--request", "request.json", "--out", "out"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=120)
        result = parse_result((self.folder / "out" / "result.json").read_bytes())
        times: dict[str, list[float]] = {"plain": [], "instrumented": []}
        for done in result.passes:
            if done.iteration > 0:
                times[done.kind].append(done.latency_ns / 1e6)
        return times


class _Peer:
    """ONNX Runtime's CPU provider with its default optimisation, one thread."""

    def __init__(self, model: Path, x: np.ndarray) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.feeds = {"x": x}

    def turn(self) -> list[float]:
        """Milliseconds of each counted run."""
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            self.session.run(None, self.feeds)
            times.append((time.perf_counter() - start) * 1e3)
        return times[1:]


def _model() -> Path:
    suite = load_suite(ROOT / "suites" / "smoke.yaml")
    entry = next(model for model in suite.models if model.id == "orientation")
    return fetch_model(entry.pinned(ROOT / "suites"), cache_root(), lambda line: print(line, file=sys.stderr))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and write the figures to ``--json FILE``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "engine_speed.json")
    options = parser.parse_args(argv)
    figures = measure()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(
        f"orientation CNN, one thread, {figures['abi']}, median (least) of {len(figures['samples_ms']['refrt_plain'])}"
    )
    for name, value in figures["median_ms"].items():
        print(f"  {name:20s} {value:8.2f} ms ({figures['least_ms'][name]:.2f})")
    print(f"  refrt plain / ONNX Runtime    {figures['plain_over_onnxruntime']:.2f}   (at most 2)")
    print(f"  refrt instrumented / plain    {figures['instrumented_over_plain']:.2f}   (at most 1.5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
