"""Quantised models through a whole gate: three columns, whose blame is told apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.digest import file_sha256
from engine.toolchain import Toolchain
from tests.e2e.bench import HOST, REPOSITORY, Bench, Outcome

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.timeout(600)]

PAIR = ("fp32", "int8")
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


def qoperator_suite(folder: Path) -> str:
    """The FP32 model and its form in QLinearMatMul, weights and activations over the full range of their codes."""
    (folder / "fp32.onnx").write_bytes(fp32_model(1.0).SerializeToString())
    weights = numpy_helper.to_array(fp32_model(1.0).graph.initializer[0])
    values = {
        "xs": np.float32(1.25 / 255), "xz": np.uint8(128), "ws": np.float32(1 / 127), "wz": np.int8(0),
        "w": np.rint(weights * 127).astype(np.int8), "ys": np.float32(40 / 255), "yz": np.uint8(128),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["codes"]),
        helper.make_node("QLinearMatMul", ["codes", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["sums"]),
        helper.make_node("DequantizeLinear", ["sums", "ys", "yz"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(*end) for end in (("x", 1, [4, 576]), ("y", 1, [4, 4]))]
    initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "one", ends[:1], ends[1:], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    (folder / "int8.onnx").write_bytes(model.SerializeToString())
    models = [{"id": name, "path": f"{name}.onnx", "sha256": file_sha256(folder / f"{name}.onnx")} for name in PAIR]
    document = {
        "name": "pair",
        "models": [models[0], models[1] | {"fp32": "fp32"}],
        "inputs": [{"id": "noise", "recipe": "noise-windows", "parameters": {"windows": 4, "amplitude": 20000}}],
        "cases": [{"id": "int8", "model": "int8", "inputs": {"x": "noise"}, "profile": "int8"}],
    }
    (folder / "pair.yaml").write_text(json.dumps(document))
    return str(folder / "pair.yaml")


GOLDEN = """
import sys
from pathlib import Path
from engine.models.golden import golden_trace
from farm.suites import load_suite
suite, cache = load_suite(Path(sys.argv[1])), Path(sys.argv[2])
inputs = {name: made.array() for name, made in suite.prepare(suite.cases[0], {}, cache).items()}
golden_trace(Path(sys.argv[1]).parent / "int8.onnx", inputs, cache / "references" / "golden")
"""


def golden_on(cpu: str, suite: Path, bench: Bench) -> None:
    """Keep the golden that ONNX Runtime computes on an emulated ``cpu``: what the gate would compute on such a host."""
    emulator = Toolchain.ensure().emulator("qemu-x86_64")
    cache = bench.environment["LOCKSTEP_CACHE"]
    command = [str(emulator), "-cpu", cpu, sys.executable, "-c", GOLDEN, str(suite), cache]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr


def gate_with_golden_of(cpu: str, bench: Bench, folder: Path) -> Outcome:
    bench.own_cache()
    suite = qoperator_suite(folder)
    golden_on(cpu, Path(suite), bench)
    return bench.gate("--suite", suite, "--devices", bench.fleet(HOST))


@pytest.mark.qemu
@pytest.mark.long
def test_a_model_in_qoperator_form_has_a_canonical_referee(bench: Bench, tmp_path: Path) -> None:
    done = gate_with_golden_of("Nehalem", bench, tmp_path)
    entry = done.case("int8", "host")
    assert (done.exit_code, entry["status"]) == (0, "pass"), done.text
    assert entry["coverage"]["paired"] == 3
    assert [column["compared"] for column in entry["quantisation"]["columns"]] == [1, 3]


@pytest.mark.qemu
@pytest.mark.long
def test_a_golden_of_a_cpu_whose_8_bit_kernels_saturate_blames_no_commit(bench: Bench, tmp_path: Path) -> None:
    """ONNX Runtime as it is on AVX2 without VNNI: its sums are wrong, canonical's and the evaluator's are not."""
    done = gate_with_golden_of("Haswell", bench, tmp_path)
    entry = done.case("int8", "host")
    assert (done.exit_code, entry["status"]) == (3, "inconclusive"), done.text
    assert "golden_suspect" in entry["notes"]
    assert {layer["op"] for layer in entry["second_referee"]["layers"]} >= {"QLinearMatMul"}
