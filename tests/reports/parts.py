"""What sample runs are made of: chips, cases, layers with their numbers, and ``build``, a run in which all agrees."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from reports import write_layers, write_verdict

Row = dict[str, Any]
Case = dict[str, Any]

BOUND = 1e-4

# name, chip, tier, abi, dispatch, emulated
CHIPS = (
    ("x86-64-v1", "generic x86-64", "mid", "x86-64", "sse2", False),
    ("x86-64-v3", "host x86-64-v3", "high", "x86-64-v3", "avx2", False),
    ("a53", "Cortex-A53", "low", "arm64", "neon", True),
    ("v1", "Neoverse-V1", "high", "arm64-sve", "sve-256", True),
    ("a9", "Cortex-A9", "low", "armv7", "vfpv3", True),
    ("rv64", "generic rv64gc", "mid", "riscv64", "scalar", True),
)
CASES = (
    ("page-0", "orientation"),
    ("page-90", "orientation"),
    ("page-180", "orientation"),
    ("page-270", "orientation"),
    ("speech", "vad"),
    ("noise", "vad"),
)


@dataclass(frozen=True)
class Layer:
    name: str
    op: str
    shape: str


@dataclass
class RunSample:
    verdict: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        write_verdict(folder / "verdict.json", self.verdict)
        write_layers(folder / "layers.parquet", self.rows)
        return folder

    def case(self, case: str, device: str) -> Case:
        return next(c for c in self.verdict["cases"] if c["case"] == case and c["device"] == device)

    def rows_of(self, case: str, device: str | None = None) -> list[Row]:
        return [r for r in self.rows if r["case"] == case and device in (None, r["device"])]


def digest(*parts: object) -> str:
    return xxhash.xxh3_128("/".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()


def orientation_layers() -> list[Layer]:
    """115 layers named and shaped like the page-orientation CNN."""
    layers: list[Layer] = []
    size, channels = 112, 16
    for block in range(27):
        kind = "depthwise_conv2d" if block % 2 else "conv2d"
        if block in (3, 7, 11, 23):
            size //= 2
        if block % 4 == 2:
            channels = min(channels * 2, 512)
        shape = f"1x{channels}x{size}x{size}"
        layers += [
            Layer(f"p2o.pd_op.{kind}.{block // 2}.0", "Conv", shape),
            Layer(f"p2o.pd_op.batch_norm_.{block}.0", "BatchNormalization", shape),
            Layer(f"p2o.pd_op.hardswish.{block}.0", "HardSwish", shape),
        ]
    gate = ["GlobalAveragePool", *["Conv", "Add", "Identity", "Relu"] * 2, "HardSigmoid", "Mul", "Identity"]
    tail = [*gate, *gate]
    tail += ["GlobalAveragePool", "Conv", "HardSwish", "Mul", "Shape", "Slice", "Concat", "Reshape", "MatMul", "Add"]
    layers += [Layer(f"p2o.pd_op.{op.lower()}.t{i}.0", op, f"1x{channels}x1x1") for i, op in enumerate(tail)]
    return [*layers[:114], Layer("fetch_name_0", "Softmax", "1x4")]


def vad_layers() -> list[Layer]:
    """34 layers named and shaped like the sequence voice-activity LSTM."""
    ops = ["Pad", "Unsqueeze", "Conv", *["Slice"] * 4, "Pow", "Pow", "Add", "Sqrt", *["Conv", "Relu"] * 4, "Transpose"]
    ops += ["LSTM", "Squeeze", "Relu", "Transpose", "Conv", "Sigmoid", *["Reshape"] * 2, "Cast", "Concat", "Slice"]
    ops += ["Transpose", "Reshape"]
    layers = [Layer(f"/stft/{op}_{i}_output_0", op, f"31x{128 if i > 11 else 258}x4") for i, op in enumerate(ops)]
    return [*layers, Layer("speech_probs", "Reshape", "31")]


MODELS: dict[str, list[Layer]] = {"orientation": orientation_layers(), "vad": vad_layers()}


@functools.cache
def numbers(case: str, layer: Layer, index: int) -> Row:
    """Statistics of canonical against golden: small, rising along the network, the same for every chip."""
    random = np.random.default_rng(int(digest(case, layer.name)[:12], 16))
    scaled = float(2e-8 * (1 + index) ** 0.7 * random.uniform(0.5, 4))
    rms = float(random.uniform(0.2, 5))
    count = int(np.prod([int(n) for n in layer.shape.split("x")]))
    got = float(random.normal()) * rms
    return {
        "max_abs": scaled * rms,
        "scaled_rms": scaled,
        "scaled_p999": scaled / 3.1,
        "rmse": scaled * rms / 6,
        "sqnr_db": float(-20 * np.log10(scaled / 6)),
        "cosine": 1 - scaled**2,
        "norm_ratio": 1 + scaled / 50,
        "over_bound": 0,
        "count": count,
        "worst_index": int(random.integers(count)),
        "worst_got": got,
        "worst_ref": got - scaled * rms,
        "bound": BOUND,
        "would_pass": scaled,
        "nan": 0,
        "pos_inf": 0,
        "neg_inf": 0,
    }


def layer_row(case: str, model: str, chip: tuple[Any, ...], layer: Layer, index: int) -> Row:
    same = digest(case, layer.name)
    return {
        "case": case,
        "device": chip[0],
        "chip": chip[1],
        "model": model,
        "layer": layer.name,
        "index": index,
        "op": layer.op,
        "dtype": "float32",
        "shape": layer.shape,
        "backend": "cpu",
        "segment": 0,
        "status": "pass",
        "matched": "canonical",
        "digest": same,
        "canonical_digest": same,
        "base_digest": None,
        "covers": "",
        "introduced": False,
        "reason": "same bits as the canonical",
        **numbers(case, layer, index),
    }


def device(chip: tuple[Any, ...]) -> dict[str, Any]:
    name, silicon, tier, abi, dispatch, emulated = chip
    return {
        "name": name,
        "chip": silicon,
        "model": f"qemu-{name}" if emulated else "this host",
        "tier": tier,
        "abi": abi,
        "link": "emulated" if emulated else "local",
        "emulated": emulated,
        "required": True,
        "tested": True,
        "state": "ready",
        "reason": None,
        "fingerprint": {
            "chip": silicon,
            "abi": abi,
            "dispatch": dispatch,
            "kernel": "6.1.0-31-amd64",
            "os": "Debian GNU/Linux 12",
            "runtime": "refrt 0.1.0 (5d1c22f)",
            "precision": "fp32",
            "threads": "1",
            "emulator": "qemu 10.0.8" if emulated else "none",
        },
    }


def case_record(case: str, model: str, chip: tuple[Any, ...], layers: list[Layer]) -> Case:
    wants = {"orientation": case.removeprefix("page-"), "vad": case}.get(model, "-")
    slow = 30.0 if chip[5] else 1.0
    return {
        "case": case,
        "model": model,
        "device": chip[0],
        "chip": chip[1],
        "status": "pass",
        "notes": [],
        "first_deviating_layers": [],
        "first_deviating_layer": None,
        "reason": f"all {len(layers)} layers have the same bits as the canonical",
        "worst": None,
        "coverage": {"paired": len(layers), "expected": len(layers), "not_observable": 0, "missing": 0},
        "tasks": [{"name": "classified rightly", "status": "pass", "expected": wants, "got": wants, "reason": None}],
        "outputs": [{"name": layers[-1].name, "digest": digest(case, layers[-1].name), "matched": "canonical"}]
        if layers
        else [],
        "changed": {
            "against": "none",
            "layers_changed": 0,
            "outputs_changed": [],
            "first_changed_layer": None,
            "reason": "no base was given",
        },
        "expectation": None,
        "effective": {"backend": "cpu", "precision": "fp32", "threads": 1, "dispatch": chip[4]},
        "requested": {"backend": "cpu", "precision": "fp32", "threads": 1},
        "latency_ms": {"plain": 11.4 * slow, "instrumented": 14.9 * slow},
        "attempts": 1,
        "tries": [],
        "traffic": {"to_device": 41_233, "from_device": 18_120},
        "profile": "fp32",
    }


def pairs_of(cases: Iterable[tuple[str, str]], chips: tuple[Any, ...], layers: dict[str, list[Layer]]) -> list[Row]:
    return [
        {
            "a": a[0],
            "b": b[0],
            "case": case,
            "status": "pass",
            "bit_identical": True,
            "layers_equal": len(layers[model]),
            "layers_compared": len(layers[model]),
            "first_deviating_layer": None,
            "reason": None,
            "worst": None,
        }
        for case, model in cases
        for i, a in enumerate(chips)
        for b in chips[i + 1 :]
    ]


def build(
    cases: tuple[tuple[str, str], ...] = CASES,
    chips: tuple[Any, ...] = CHIPS,
    models: dict[str, list[Layer]] | None = None,
) -> RunSample:
    """A run in which everything agrees."""
    models = models or MODELS
    rows = [
        layer_row(case, model, chip, layer, index)
        for case, model in cases
        for chip in chips
        for index, layer in enumerate(models[model])
    ]
    records = [case_record(case, model, chip, models[model]) for case, model in cases for chip in chips]
    verdict = {
        "schema": 1,
        "status": "pass",
        "exit_code": 0,
        "run": {
            "id": "20261129-031500-5d1c22f",
            "started": "2026-11-29T03:15:00+00:00",
            "finished": "2026-11-29T03:16:02+00:00",
            "seconds": 62.4,
            "command": "lockstep gate",
            "suite": "smoke",
            "engine": "refrt",
            "engine_version": "0.1.0+5d1c22f",
            "base": None,
            "inject": None,
            "host": {"cpu": "x86-64-v3", "cores": "2", "memory": "23 GiB", "os": "Debian GNU/Linux 12"},
            "phases": [
                {"name": "plan", "seconds": 0.8},
                {"name": "build", "seconds": 0.2},
                {"name": "references", "seconds": 4.1},
                {"name": "deploy", "seconds": 1.9},
                {"name": "run", "seconds": 51.3},
                {"name": "judge", "seconds": 2.2},
            ],
        },
        "coverage": {
            "layers_paired": len(rows),
            "layers_expected": len(rows),
            "layers_not_observable": 0,
            "layers_constant": 0,
            "devices_tested": len(chips),
            "devices_required": len(chips),
            "devices_real": sum(not c[5] for c in chips),
            "devices_emulated": sum(c[5] for c in chips),
            "distinct_dispatch": len({c[4] for c in chips}),
        },
        "traffic": {"bytes_to_devices": 1_483_112, "bytes_from_devices": 652_330, "layer_bytes": 423_113_728},
        "devices": [device(chip) for chip in chips],
        "cases": records,
        "chip_pairs": pairs_of(cases, chips, models),
        "bit_identity": [
            {
                "case": case,
                "groups": [
                    {
                        "devices": [c[0] for c in chips],
                        "dispatches": [c[4] for c in chips],
                        "layers": len(models[model]),
                    }
                ],
                "identical_layers": len(models[model]),
                "total_layers": len(models[model]),
                "first_split_layer": None,
            }
            for case, model in cases
        ],
        "not_tested": [],
        "notes": [],
    }
    return RunSample(verdict, rows)
