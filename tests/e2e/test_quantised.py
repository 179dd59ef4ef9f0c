"""Quantised models through a whole gate: three columns, whose blame is told apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.digest import file_sha256
from tests.e2e.bench import HOST, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.timeout(600)]

NO_VNNI = "vnni" not in Path("/proc/cpuinfo").read_text() and " avx2" in Path("/proc/cpuinfo").read_text()


def fp32_model(outlier: float) -> onnx.ModelProto:
    """x [4, 576] → MatMul → y, with one large weight: a single step for all weights is coarse for the rest."""
    weights = np.random.default_rng(7).uniform(0.5, 1.0, (576, 4)).astype(np.float32)
    weights[0, 0] = outlier
    ends = [helper.make_tensor_value_info(*end) for end in (("x", 1, [4, 576]), ("y", 1, [4, 4]))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "one",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


def suite(folder: Path, outlier: float) -> str:
    (folder / "fp32.onnx").write_bytes(fp32_model(outlier).SerializeToString())
    assert TensorProto.FLOAT == 1
    document = {
        "name": "pair",
        "models": [
            {"id": "fp32", "path": "fp32.onnx", "sha256": file_sha256(folder / "fp32.onnx")},
            {"id": "int8", "fp32": "fp32", "quantise": {"inputs": [{"x": "noise"}], "operators": ["MatMul"]}},
        ],
        "inputs": [{"id": "noise", "recipe": "noise-windows", "parameters": {"windows": 4, "amplitude": 20000}}],
        "cases": [{"id": "int8", "model": "int8", "inputs": {"x": "noise"}, "profile": "int8"}],
    }
    (folder / "pair.yaml").write_text(json.dumps(document))
    return str(folder / "pair.yaml")


@pytest.mark.long
def test_a_large_quantisation_loss_is_a_note_and_no_regression(bench: Bench, tmp_path: Path) -> None:
    words = ("--suite", suite(tmp_path, outlier=400.0), "--devices", bench.fleet(HOST))
    done = bench.gate(*words, "--engine", "ort-int8")
    assert done.exit_code == 0, done.text
    entry = done.case("int8", "host")
    assert "quantisation_loss" in entry["notes"]
    told = entry["quantisation"]
    assert (told["blame"], [column["status"] for column in told["columns"]]) == (
        "model",
        ["beyond", "within", "within"],
    )
    assert [column["name"] for column in told["columns"]] == ["quantisation", "backend", "cpu"]
    assert (told["columns"][0]["first"], told["columns"][0]["compared"]) == (["y"], 1), "the model's one layer"
    assert "first beyond bounds at `y`" in told["reason"]
    assert "a property of the quantised model, not of this device or commit" in entry["reason"]
    assert entry["effective"]["backend"] == "int8"
    page = (done.out / "latest" / "report" / "index.html").read_text()
    assert "quantisation (integer reference against FP32)" in page


@pytest.mark.long
@pytest.mark.skipif(not NO_VNNI, reason="needs an AVX2 CPU without VNNI, whose 8-bit kernels saturate")
def test_a_saturating_backend_is_blamed_beside_a_right_cpu(bench: Bench, tmp_path: Path) -> None:
    words = ("--suite", suite(tmp_path, outlier=1.0), "--devices", bench.fleet(HOST))
    done = bench.gate(*words, "--engine", "ort-int8")
    assert done.exit_code == 1, done.text
    told = done.case("int8", "host")["quantisation"]
    assert (told["blame"], [column["status"] for column in told["columns"]]) == (
        "backend",
        ["within", "beyond", "within"],
    )
