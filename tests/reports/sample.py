"""Run folders as the gate would write them: realistic verdicts and layer tables for tests, screenshots and benches.

``python -m tests.reports.sample failing out/sample`` writes one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.reports.parts import BOUND, CASES, CHIPS, MODELS, Layer, RunSample, build, device, digest


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
