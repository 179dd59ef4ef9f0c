"""A device that does not give the same answer twice: ONNX Runtime with noise added to every run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bench import HOST, REPOSITORY, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.timeout(600)]

NOISY = """
import os, sys
import numpy as np
import ort_runner
import onnxruntime as ort

class Noisy(ort.InferenceSession):
    def run(self, names, inputs):
        threads = self.get_session_options().intra_op_num_threads
        runs = os.path.join(os.environ["RUNS"], str(len(os.listdir(os.environ["RUNS"]))))
        open(runs, "w").close()
        size = float(os.environ["NOISE"]) * (int(os.path.basename(runs)) >= int(os.environ["FROM"]))
        noise = np.random.default_rng().uniform(0.2, 1.0)
        return [np.float32(array + size * noise * (threads > 1)) for array in super().run(names, inputs)]

ort.InferenceSession = Noisy
sys.exit(ort_runner.main(ort_runner.run))
"""


INSIDE = """
import os, sys
import numpy as np
import onnxruntime as ort

class Plain(ort.SessionOptions):
    def __init__(self):
        super().__init__()
        self.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

ort.SessionOptions = Plain
import ort_layers, ort_runner
ort_runner.BACKENDS["cpu"] = ort.GraphOptimizationLevel.ORT_DISABLE_ALL

class Noisy(ort_layers.Engine):
    def instrumented(self, iterations):
        number = len(os.listdir(os.environ["RUNS"]))
        open(os.path.join(os.environ["RUNS"], str(number)), "w").close()
        passes, captured = super().instrumented(iterations)
        name = next(name for name, array in captured.items() if array.dtype == np.float32 and name not in self.outputs)
        size = float(os.environ["NOISE"]) if number >= int(os.environ["FROM"]) else 1e-6
        captured[name] = captured[name] + np.float32(size * np.random.default_rng().uniform(0.2, 1.0))
        return passes, captured

ort_layers.Engine = Noisy
sys.exit(ort_runner.main(ort_layers.run))
"""


def gate_inside(bench: Bench, noise: str, start: int) -> Any:
    """A gate of one case with an engine that shows its first layer off by up to ``noise``, and the right outputs."""
    artifacts, runs = bench.folder / "inside", bench.folder / "runs"
    artifacts.mkdir()
    runs.mkdir()
    for name in ("ort_runner.py", "ort_layers.py"):
        shutil.copy(REPOSITORY / "examples" / "ort-runner" / name, artifacts)
    (artifacts / "inside.py").write_text(INSIDE)
    engine = bench.engine(
        "inside",
        "",
        level=2,
        runner=["{python}", "inside.py"],
        abis={"x86-64": {"files": ["inside.py", "ort_layers.py", "ort_runner.py"]}},
        env={"NOISE": noise, "FROM": str(start), "RUNS": str(runs)},
    )
    return bench.gate("--engine", engine, "--devices", bench.fleet(HOST), "--case", "vad-noise")


def test_a_layer_that_varies_inside_is_found_behind_steady_outputs(bench: Bench) -> None:
    done = gate_inside(bench, "0.5", 2)
    entry = done.case("vad-noise", "host")
    assert (done.exit_code, entry["status"]) == (1, "flaky"), done.text
    assert "nondeterministic" in entry["notes"]
    told = entry["itself"]["layers"]
    assert (told["runs"], told["varying"], len(told["first"])) == (5, 1, 1)
    (name,) = told["first"]
    assert entry["remarks"][0].startswith("the layers start to vary at")
    assert f"`{name}`: 5 different results in 5 runs" in entry["reason"]
    assert "3 of them beyond bounds" in entry["reason"]
    assert 0.1 < told["noise"][name]["least"] <= told["noise"][name]["most"] <= 1.0
    assert "layers in 5 runs: 1 varying, first" in (done.out / "latest" / "report" / "index.html").read_text()


def gate(bench: Bench, noise: str, start: int, threads: int = 2) -> Any:
    """A gate of one case with an engine that adds up to ``noise`` from its run number ``start`` on."""
    artifacts, runs = bench.folder / "noisy", bench.folder / "runs"
    artifacts.mkdir()
    runs.mkdir()
    shutil.copy(REPOSITORY / "examples" / "ort-runner" / "ort_runner.py", artifacts)
    Path(artifacts / "noisy.py").write_text(NOISY)
    engine = bench.engine(
        "noisy",
        "",
        runner=["{python}", "noisy.py"],
        abis={"x86-64": {"files": ["noisy.py", "ort_runner.py"]}},
        env={"NOISE": noise, "FROM": str(start), "RUNS": str(runs)},
    )
    return bench.gate("--engine", engine, "--devices", bench.fleet({**HOST, "threads": threads}), "--case", "vad-noise")


def test_variation_within_bounds_is_a_note_with_its_size(bench: Bench) -> None:  # A12
    done = gate(bench, "1e-6", 0)
    entry = done.case("vad-noise", "host")
    assert (done.exit_code, entry["status"]) == (3, "pass"), done.text  # 3: other cases were left out
    assert "nondeterministic" in entry["notes"]
    assert entry["itself"]["runs"] == 6
    assert 0.0 < entry["itself"]["noise"]["speech_probs"] <= 1e-6
    (remark,) = [text for text in entry["remarks"] if "different results" in text]
    assert "has 5 different results in 5 runs (with 1 thread it repeats itself)" in remark
    assert "its own noise; each within bounds" in remark


@pytest.mark.long
def test_variation_beyond_bounds_is_flaky_though_the_first_run_is_right(bench: Bench) -> None:
    done = gate(bench, "0.5", 1)
    entry = done.case("vad-noise", "host")
    assert (done.exit_code, entry["status"]) == (1, "flaky"), done.text
    assert "beyond bounds" in entry["reason"]
    assert "nondeterministic" in entry["notes"]
