"""Run folders as the gate would write them: realistic verdicts and layer tables for tests, screenshots and benches.

``python -m tests.reports.sample failing out/sample`` writes one.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable
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


def all_pass() -> RunSample:
    """Six chips, six cases, every layer bit-identical with the canonical."""
    return build()


def failing(at: int = 24) -> RunSample:
    """One mutated layer of the CNN: wrong on every chip, later layers inherit; some marks of every kind."""
    run = build()
    run.verdict |= {"status": "fail", "exit_code": 1}
    layer = MODELS["orientation"][at]
    run.verdict["run"]["inject"] = f"scaled-weights@{layer.name}"
    run.verdict["run"]["command"] = f"lockstep gate --inject scaled-weights@{layer.name}"
    for case, model in CASES:
        if model == "orientation":
            for chip in CHIPS:
                _break(run, case, chip, at)
    for record in run.verdict["bit_identity"][:4]:
        record["first_split_layer"] = None
    return run


def _break(run: RunSample, case: str, chip: tuple[Any, ...], at: int) -> None:
    for row in run.rows_of(case, chip[0]):
        if row["index"] < at:
            continue
        scaled = 0.31 * 0.93 ** (row["index"] - at)
        first = row["index"] == at
        row |= {
            "status": "fail",
            "matched": "none",
            "digest": digest("broken", case, row["layer"]),
            "scaled_rms": scaled,
            "scaled_p999": scaled / 3,
            "max_abs": scaled * 2.2,
            "rmse": scaled / 5,
            "sqnr_db": float(-20 * np.log10(scaled)),
            "cosine": 1 - scaled**2 / 2,
            "norm_ratio": 1.08,
            "over_bound": row["count"] // 3,
            "would_pass": scaled,
            "introduced": first,
            "alone": "fail" if first else "pass",
            "introduced_max_abs": scaled * 2.2 if first else 1e-7,
            "inherited_max_abs": 0.0 if first else scaled * 2.2 - 1e-7,
            "paired_by": "name and operator",
            "confidence": 1.0,
            "reason": "its inputs agree, its output does not" if first else "inherited: an input already deviates",
        }
    layer = MODELS["orientation"][at]
    run.case(case, chip[0]).update(
        status="fail",
        first_deviating_layers=[layer.name],
        first_deviating_layer=layer.name,
        reason=f"{layer.name} ({layer.op}) is wrong: scaled error 0.31 is over the bound 0.0001; "
        f"{114 - at} later layers inherit it",
        worst={"layer": layer.name, "metric": "scaled_rms", "measured": 0.31, "bound": BOUND, "would_pass": 0.31},
        tasks=[
            {
                "name": "classified rightly",
                "status": "fail",
                "expected": case.removeprefix("page-"),
                "got": "0",
                "reason": "class 0 has the highest score",
            }
        ],
    )
    run.case(case, chip[0])["outputs"][0].update(digest=digest("broken", case, "fetch_name_0"), matched="none")


def marks() -> RunSample:
    """Every mark of the heat map in one case: NaN, not observable, missing, not compared, golden's own bits."""
    run = failing(at=40)
    for row in run.rows_of("page-0"):
        index, name = row["index"], row["device"]
        if name == "a9" and index >= 60:
            row |= {"status": "missing", "matched": "none", "digest": None, "scaled_rms": None, "max_abs": None}
            row["reason"] = "the runner ended before this layer"
        elif name == "v1" and 70 <= index < 90:
            row |= {"nan": 12, "pos_inf": 3, "scaled_rms": None, "max_abs": None, "reason": "12 NaN, 3 +Inf"}
        elif index % 3 == 1 and name == "x86-64-v3":
            row |= {"status": "not_observable", "matched": "none", "digest": None, "scaled_rms": None}
            row["reason"] = "fused into the layer after it"
        elif name == "rv64" and index in (10, 11):
            row |= {"status": "not_compared", "matched": "none", "scaled_rms": None, "reason": "unknown dtype"}
        elif name == "a53" and index < 40:
            row |= {"matched": "golden", "scaled_rms": 0.0, "max_abs": 0.0}
        elif name == "x86-64-v1" and index < 40:
            row |= {"matched": "none", "scaled_rms": float(10.0 ** (-8 + index / 10)), "status": "pass"}
    count = Counter(row["status"] for row in run.rows)
    run.verdict["coverage"] |= {
        "layers_paired": count["pass"] + count["fail"],
        "layers_not_observable": count["not_observable"],
    }
    return run


def changed() -> RunSample:
    """Two chips give new bits within bounds, against a base."""
    run = build()
    run.verdict["run"]["base"] = {"ref": "origin/main", "version": "0.1.0+91ab033"}
    for case, model in CASES:
        for chip in CHIPS:
            record = run.case(case, chip[0])
            hit = model == "orientation" and chip[0] in ("x86-64-v3", "v1")
            record["changed"] = {
                "against": "base",
                "layers_changed": 91 if hit else 0,
                "outputs_changed": ["fetch_name_0"] if hit else [],
                "first_changed_layer": MODELS[model][24].name if hit else None,
                "reason": "91 layers have new bits, all within bounds" if hit else "no layer changed",
            }
            if hit:
                record["notes"] = ["changed"]
                record["reason"] = "115 layers within bounds; 91 have new bits since origin/main"
                for row in run.rows_of(case, chip[0]):
                    row["base_digest"] = row["digest"]
                    if row["index"] >= 24:
                        row |= {"matched": "none", "digest": digest("new", case, chip[4], row["layer"])}
                        row |= {"scaled_rms": row["scaled_rms"] * 7, "reason": "within bounds, new bits"}
    for record in run.verdict["bit_identity"][:4]:
        record.update(identical_layers=24, first_split_layer=MODELS["orientation"][24].name)
        record["groups"] = [
            {
                "devices": ["x86-64-v1", "a53", "a9", "rv64"],
                "dispatches": ["sse2", "neon", "vfpv3", "scalar"],
                "layers": 115,
            },
            {"devices": ["x86-64-v3"], "dispatches": ["avx2"], "layers": 115},
            {"devices": ["v1"], "dispatches": ["sve-256"], "layers": 115},
        ]
    for pair in run.verdict["chip_pairs"]:
        if pair["case"].startswith("page") and {pair["a"], pair["b"]} & {"x86-64-v3", "v1"}:
            name = MODELS["orientation"][24].name
            pair.update(bit_identical=False, layers_equal=24, first_deviating_layer=name, reason="within bounds")
            pair["worst"] = {
                "layer": name,
                "metric": "scaled_rms",
                "measured": 3e-6,
                "bound": BOUND,
                "would_pass": 3e-6,
            }
    return run


def missing_device() -> RunSample:
    """One required chip could not run: neutral, exit 3."""
    run = build(chips=CHIPS[:5])
    absent = device(CHIPS[5])
    why = "qemu-riscv64 10.0 or newer is not installed"
    absent |= {"tested": False, "state": "unavailable", "reason": why, "fingerprint": {}}
    run.verdict["devices"].append(absent)
    run.verdict |= {"status": "incomplete", "exit_code": 3}
    run.verdict["coverage"] |= {"devices_required": 6, "layers_expected": len(run.rows) + 528}
    run.verdict["not_tested"] = [
        {
            "kind": "device",
            "name": "rv64",
            "reason": why,
            "next_step": "type: make setup (it installs qemu-user 10)",
            "required": True,
        }
    ]
    return run


def crashed() -> RunSample:
    """The runner died of SIGILL on one chip, an infrastructure fault struck another."""
    run = build()
    run.verdict |= {"status": "fail", "exit_code": 1}
    for case, _ in CASES:
        run.case(case, "a9").update(
            status="crashed",
            reason="the runner died of SIGILL (illegal instruction) in the plain run, twice",
            outputs=[],
            coverage={
                "paired": 0,
                "expected": len(run.rows_of(case, "a9")),
                "not_observable": 0,
                "missing": len(run.rows_of(case, "a9")),
            },
            latency_ms={"plain": None, "instrumented": None},
            attempts=2,
            evidence={
                "logcat": "F libc: Fatal signal 11 <script>alert(1)</script>",
                "tombstone": "signal 11 (SIGSEGV)",
            },
        )
        for row in run.rows_of(case, "a9"):
            row.update(status="missing", matched="none", digest=None, reason="the runner crashed before it")
            row.update(
                dict.fromkeys(("max_abs", "scaled_rms", "scaled_p999", "rmse", "sqnr_db", "cosine", "norm_ratio"))
            )
    run.case("noise", "rv64").update(status="infra", reason="the device stopped answering while results were collected")
    run.verdict["coverage"]["layers_paired"] -= len([r for r in run.rows if r["device"] == "a9"])
    return run


HOSTILE = (
    "<script>window.hacked=1</script>",
    "</script><img src=x onerror=window.hacked=1>",
    "BaNaNa_Infinity",
    "quote\"'`back|tick` & <b>",
    "猫/\u202eevil\u2028line",
    "{{ 7*7 }}{% raw %}",
    "[link](javascript:alert(1)) @everyone",
)


def hostile() -> RunSample:
    """Names that would break a careless page, and numbers that do not exist."""
    layers = [Layer(name, "Conv<svg onload=window.hacked=1>", "1x4") for name in HOSTILE]
    chips = (CHIPS[0], ("<i>a53</i>\"'&", "Cortex <A53>", "low", "arm64", "neon<", True))
    case = "case <b>&\"'</script>"
    run = build(((case, "model<x>"),), chips, {"model<x>": layers})
    run.verdict |= {"status": "fail", "exit_code": 1, "notes": ["<script>window.hacked=1</script>"]}
    for chip in chips:
        record = run.case(case, chip[0])
        record.update(
            status="fail",
            first_deviating_layers=[HOSTILE[2]],
            first_deviating_layer=HOSTILE[2],
            reason="NaN in <BaNaNa_Infinity> & friends",
            worst={
                "layer": HOSTILE[2],
                "metric": "max_abs",
                "measured": float("nan"),
                "bound": 1e-4,
                "would_pass": None,
                "reason": "4 NaN: no number exists",
            },
        )
        row = run.rows_of(case, chip[0])[2]
        row |= {
            "status": "fail",
            "matched": "none",
            "introduced": True,
            "nan": 4,
            "max_abs": float("nan"),
            "would_pass": None,
        }
        row |= {"scaled_p999": float("inf"), "scaled_rms": None, "reason": "4 NaN: no number exists"}
    return run


def empty() -> RunSample:
    """Nothing ran: never a pass."""
    run = build(cases=(), chips=CHIPS)
    for item in run.verdict["devices"]:
        item.update(tested=False, state="unavailable", reason="no case was selected", fingerprint={})
    run.verdict |= {"status": "incomplete", "exit_code": 3}
    run.verdict["coverage"] |= {"devices_tested": 0, "devices_real": 0, "devices_emulated": 0, "distinct_dispatch": 0}
    run.verdict["not_tested"] = [
        {
            "kind": "case",
            "name": "page-0",
            "reason": "deselected by --case",
            "next_step": "run without --case",
            "required": True,
        }
    ]
    return run


def one_layer() -> RunSample:
    return build((("tiny", "identity"),), CHIPS[:1], {"identity": [Layer("out", "Identity", "1")]})


def all_equal() -> RunSample:
    """Every layer has the golden's own bits: every error is exactly zero (its log does not exist)."""
    run = build(CASES[:1])
    for row in run.rows:
        row |= {
            "matched": "golden",
            "max_abs": 0.0,
            "scaled_rms": 0.0,
            "scaled_p999": 0.0,
            "rmse": 0.0,
            "would_pass": 0.0,
        }
        row |= {"sqnr_db": None, "cosine": 1.0, "norm_ratio": 1.0, "reason": "same bits as the golden"}
    return run


def large(layers: int = 3000, fail_at: int = 1700) -> RunSample:
    """3000 layers x 6 devices x 10 metrics, no two devices alike, failing from one layer on."""
    model = [Layer(f"/model/layers.{i}/self_attn/MatMul_output_0", "MatMul", "1x64x128") for i in range(layers)]
    run = build((("prompt", "llm"),), CHIPS, {"llm": model})
    run.verdict |= {"status": "fail", "exit_code": 1}
    random = np.random.default_rng(5)
    for row in run.rows:
        wobble = float(random.uniform(0.5, 2))
        row |= {"matched": "none", "digest": digest(row["device"], row["layer"]), "reason": "within bounds"}
        row |= {key: row[key] * wobble for key in ("max_abs", "scaled_rms", "scaled_p999", "rmse", "sqnr_db")}
        if row["index"] >= fail_at:
            first = row["index"] == fail_at
            row |= {"status": "fail", "introduced": first, "scaled_rms": 0.2 * wobble, "would_pass": 0.2 * wobble}
            row["reason"] = "its inputs agree, its output does not" if first else "inherited"
    name = model[fail_at].name
    for record in run.verdict["cases"]:
        record.update(status="fail", first_deviating_layers=[name], first_deviating_layer=name)
        record.update(reason=f"{name} is wrong; {layers - fail_at - 1} later layers inherit it")
        record["worst"] = {"layer": name, "metric": "scaled_rms", "measured": 0.2, "bound": BOUND, "would_pass": 0.2}
    return run


SAMPLES: dict[str, Callable[[], RunSample]] = {
    f.__name__: f
    for f in (all_pass, failing, marks, changed, missing_device, crashed, hostile, empty, one_layer, all_equal, large)
}


if __name__ == "__main__":
    SAMPLES[sys.argv[1]]().write(Path(sys.argv[2]))
