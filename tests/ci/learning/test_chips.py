"""Engines on emulated chips as evidence: the gate's agents, and the chip named beside the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci.learning.arm import ArmPython
from ci.learning.chips import ChipEngine, chip_engines, suited
from ci.learning.observe import INPUTS_ELSEWHERE, observe
from ci.learning.precisions import Stored, engines_elsewhere
from ci.sensitivity.engines import GOLDEN, host_refrt
from ci.sensitivity.subjects import SUBJECTS, fetch
from engine.models.graph import read_model
from farm.casejob import BundleRef, FileRef
from farm.inventory import Device, Link

ROOT = Path(__file__).parents[3]
VOICE = next(subject for subject in SUBJECTS if subject.name == "voice")
FLEET = """
devices:
  - {name: one, chip: cortex-a53, model: qemu, tier: mid, abis: [arm64], memory_mb: 2048,
     link: {kind: emulated, emulator: qemu-aarch64, cpu: cortex-a53}}
  - {name: host, chip: host, model: host, tier: mid, abis: [x86-64], memory_mb: 2048, link: {kind: emulated}}
"""


def quiet(_: str) -> None:
    return None


def absent(engine: str, model_format: str) -> ChipEngine:
    """An engine that nothing can run."""
    link = Link(kind="emulated", emulator="qemu-arm", cpu="cortex-a9")
    device = Device(name="d", chip="cortex-a9", model="qemu", tier="low", abis=("armv7",), memory_mb=1, link=link)
    files = {"refrt": FileRef(path="/nowhere", sha256="0" * 64, size=1)}
    bundle = BundleRef(engine=engine, version="1", abi="armv7", digest="d", files=files, runner=("./refrt",), level=2)
    return ChipEngine(engine, device, bundle, model_format)


def tiny(op: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, (4,))], [value("y", TensorProto.FLOAT, (4,))]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "tiny", *ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": np.linspace(-1, 1, 4, dtype=np.float32)}


@pytest.fixture(autouse=True)
def _no_arm_wheels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a minute to fetch; one long test has them."""
    if "long" not in {mark.name for mark in request.node.iter_markers()}:
        fake = ArmPython(Path("/arm/python3.11"), {"PYTHONPATH": "/arm/site"})
        monkeypatch.setattr("ci.learning.chips.arm_python", lambda root, report: fake)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "devices.yaml"
    path.write_text(FLEET)
    return path


def test_both_builds_of_ours_run_on_the_emulated_chips_of_the_fleet_and_onnx_runtime_on_two_more(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # nothing is run here, so that nothing needs to be built
    monkeypatch.setattr(
        "ci.learning.chips.bundles",
        lambda source, abis, report: {
            abi: absent(source.manifest.name, "").bundle.model_copy(update={"abi": abi}) for abi in abis
        },
    )
    made = chip_engines(ROOT, "fp32", fleet, quiet)
    assert [(engine.name, engine.chip) for engine in made] == [
        ("refrt on cortex-a53", "cortex-a53 (qemu-aarch64, arm64)"),
        ("refrt-fast on cortex-a53", "cortex-a53 (qemu-aarch64, arm64)"),
        ("ort-layers on nehalem", "nehalem (qemu-x86_64, x86-64)"),
        ("ort-layers on cortex-a53", "cortex-a53 (qemu-aarch64, arm64)"),
    ]
    assert (made[-1].python, made[-1].bundle.env["PYTHONPATH"]) == ("/arm/python3.11", "/arm/site")
    assert made[-1].bundle.digest == made[-2].bundle.digest  # scripts: the same files, another interpreter
    assert [engine.name for engine in chip_engines(ROOT, "bf16", fleet, quiet)] == ["ort-layers on nehalem"]
    assert chip_engines(ROOT, "fp32", None, quiet) == ()


@pytest.mark.qemu
def test_another_chip_gives_the_canonical_bits_and_is_counted_with_its_models(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.learning.chips.OURS", ("refrt",))
    chips = [engine for engine in chip_engines(ROOT, "fp32", fleet, quiet) if engine.engine == "refrt"]
    models, content = fetch((VOICE,), quiet)
    model, arrays = read_model(models["voice"]), VOICE.make(content, 0)
    there, here = chips[0].run(model, arrays), host_refrt(ROOT, quiet)[0].run(model, arrays)
    assert {name: array.tobytes() for name, array in there.items()} == {n: a.tobytes() for n, a in here.items()}
    found = observe(ROOT, "fp32", quiet, [replace(VOICE, inputs=1)], chips)
    assert found.left_out == ()
    (ran,) = [ran for ran in found.engines if ran.engine == "refrt on cortex-a53"]
    assert (ran.chip, ran.models, ran.runs) == ("cortex-a53 (qemu-aarch64, arm64)", ["voice"], INPUTS_ELSEWHERE)
    (own,) = [ran for ran in found.engines if ran.engine == "refrt"]
    assert own.chip.startswith("this host")
    errors = {entry.layer: entry.stats for entry in found.observations if entry.run == "voice/refrt on cortex-a53/0"}
    assert errors == {entry.layer: entry.stats for entry in found.observations if entry.run == "voice/refrt/0"}


@pytest.mark.long
@pytest.mark.qemu
@pytest.mark.timeout(1200)
def test_onnx_runtime_on_arm_is_beside_the_golden_by_the_noise_of_a_chip(fleet: Path) -> None:
    arm = chip_engines(ROOT, "fp32", fleet, quiet)[-1]
    models, content = fetch((VOICE,), quiet)
    model, arrays = read_model(models["voice"]), VOICE.make(content, 0)
    golden, got = GOLDEN.run(model, arrays), arm.run(model, arrays)
    assert arm.chip == "cortex-a53 (qemu-aarch64, arm64)"
    assert set(got) == set(golden)
    assert 0.0 < max(float(np.abs(got[name] - golden[name]).max()) for name in list(golden)[-3:]) < 1e-5


@pytest.mark.long
@pytest.mark.qemu
def test_old_x86_is_another_bit_class_and_takes_rounded_models(fleet: Path) -> None:
    (old,) = chip_engines(ROOT, "bf16", fleet, quiet)
    models, content = fetch((VOICE,), quiet)
    model, arrays = read_model(models["voice"]), VOICE.make(content, 0)
    golden, plain = GOLDEN.run(model, arrays), old.run(model, arrays)
    rounded = Stored("x", "bf16", on=old).run(model, arrays)
    assert set(plain) == set(rounded) == set(golden)
    output = list(golden)[-1]
    small, large = (float(np.abs(got[output] - golden[output]).max()) for got in (plain, rounded))
    assert 0.0 < small < 1e-5 < large


def test_an_operator_that_ours_lacks_leaves_the_model_to_the_others() -> None:
    ours, ort = absent("refrt", "refrt"), absent("ort-layers", "onnx")
    assert suited([ours, ort], *tiny("Relu")) == (ours, ort)
    assert suited([ours, ort], *tiny("Sinh")) == (ort,)


def test_each_precision_has_the_engines_elsewhere_that_can_compute_it() -> None:
    ours, ort = absent("refrt", "refrt"), absent("ort-layers", "onnx")
    model, arrays = tiny("Relu")
    names = {
        precision: [engine.name for engine in engines_elsewhere(precision, model, arrays, [ours, ort])]
        for precision in ("fp32", "fp16", "bf16", "int8")
    }
    assert names == {
        "fp32": ["refrt on cortex-a9", "ort-layers on cortex-a9"],
        "fp16": ["fp16 storage, every layer, ort-layers on cortex-a9"],
        "bf16": ["bf16 storage, every layer, ort-layers on cortex-a9"],
        "int8": ["ort-layers on cortex-a9"],
    }
