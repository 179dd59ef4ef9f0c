"""A gate whose golden is wrong: ONNX Runtime's answer is falsified, everything else is real."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.digest import file_sha256
from engine.models.golden import golden_trace
from engine.models.mutate import mutate
from farm.suites import load_suite
from tests.e2e.bench import HOST, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.timeout(600)]


def model() -> onnx.ModelProto:
    """x → MatMul → Relu → MatMul → y, small."""
    generator = np.random.default_rng(11)
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)
        for name, shape in {"w": (576, 32), "v": (32, 4)}.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["first"]),
        helper.make_node("Relu", ["first"], ["relu"]),
        helper.make_node("MatMul", ["relu", "v"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 576])]
    graph = helper.make_graph(
        nodes, "small", ends, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


@pytest.fixture
def suite(tmp_path: Path, bench: Bench) -> Path:
    """The suite of one small model, and a cache of its own beside what all runs share."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(model().SerializeToString())
    document = {
        "name": "small",
        "models": [{"id": "small", "path": "m.onnx", "sha256": file_sha256(folder / "m.onnx")}],
        "inputs": [{"id": "noise", "recipe": "noise-windows", "parameters": {"windows": 4}}],
        "cases": [{"id": "small", "model": "small", "inputs": {"x": "noise"}}],
    }
    (folder / "small.yaml").write_text(json.dumps(document))
    bench.own_cache()
    return folder / "small.yaml"


def falsify(suite: Path, cache: Path, layer: str) -> None:
    """Keep the trace of a model with other weights under the golden's name, as a faulty ONNX Runtime would."""
    entry = load_suite(suite)
    inputs = {name: made.array() for name, made in entry.prepare(entry.cases[0], {}, cache).items()}
    true = golden_trace(suite.parent / "m.onnx", inputs, cache / "references" / "golden").folder
    (suite.parent / "other.onnx").write_bytes(mutate(model(), "scale_weights", layer).SerializeToString())
    false = golden_trace(suite.parent / "other.onnx", inputs, cache / "false").folder
    shutil.rmtree(true)
    shutil.copytree(false, true)


def test_a_wrong_golden_blames_no_commit(suite: Path, bench: Bench) -> None:
    falsify(suite, Path(bench.environment["LOCKSTEP_CACHE"]), "first")
    done = bench.gate("--suite", str(suite), "--devices", bench.fleet(HOST))
    assert done.exit_code == 3, done.text
    entry = done.case("small", "host")
    assert (entry["status"], entry["notes"]) == ("inconclusive", ["golden_suspect"])
    told = entry["second_referee"]
    assert told["status"] == "golden_suspect"
    assert [layer["layer"] for layer in told["layers"]] == ["first", "relu", "y"]
    assert all(layer["outvoted"] and layer["evaluator"] <= layer["bound"] < layer["golden"] for layer in told["layers"])
    summary = next((done.out / "latest").rglob("summary.md")).read_text()
    assert "golden suspect at MatMul" in summary
    assert "Second referee" in (done.out / "latest" / "report" / "index.html").read_text()
    junit = ET.parse(next((done.out / "latest").rglob("junit.xml"))).getroot()
    assert (junit.get("failures"), junit.get("skipped")) == ("0", "1")


@pytest.mark.long
def test_bits_of_its_own_and_a_fault_of_its_own_are_told_apart(suite: Path, bench: Bench) -> None:
    falsify(suite, Path(bench.environment["LOCKSTEP_CACHE"]), "first")
    words = ("--suite", str(suite), "--devices", bench.fleet(HOST))
    fast = bench.gate(*words, "--engine", "refrt-fast")
    assert fast.exit_code == 3, fast.text
    distances = [layer["canonical"] for layer in fast.case("small", "host")["second_referee"]["layers"]]
    assert all(0 < distance < 1e-4 for distance in distances), "bits of its own, measured against canonical's"

    faulty = bench.gate(*words, "--inject", "nan@y")
    assert faulty.exit_code == 1, faulty.text
    entry = faulty.case("small", "host")
    assert "the golden is outvoted at MatMul `first` and 1 more, but not everywhere" in entry["reason"]
