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
