"""Whole gates on the default fleet, as the README promises them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tests.e2e.bench import HOST, REPOSITORY, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.qemu, pytest.mark.services, pytest.mark.timeout(900)]

CHIPS = {"x86-64-v3", "x86-64-v1", "neoverse-v1", "cortex-a53", "cortex-a9", "riscv64"}
PAD = "/stft/padding/Pad_output_0"


def test_every_layer_of_both_models_has_the_same_bits_on_all_six_chips(bench: Bench) -> None:
    done = bench.gate(seconds=800)
    assert done.exit_code == 0, done.text
    verdict = done.verdict
    assert {entry["device"] for entry in verdict["cases"]} == CHIPS
    assert {entry["case"].split("-")[0] for entry in verdict["cases"]} == {"orientation", "vad"}
    for entry in verdict["bit_identity"]:
        assert [set(group["devices"]) for group in entry["groups"]] == [CHIPS]
        assert len(entry["groups"][0]["dispatches"]) == len(CHIPS), "each chip is a witness of its own"
        assert entry["identical_layers"] == entry["total_layers"] > 0
    coverage = verdict["coverage"]
    assert coverage["layers_paired"] == coverage["layers_expected"] > 3000
    assert (coverage["devices_tested"], coverage["devices_required"]) == (6, 6)
    assert all(task["status"] == "pass" for entry in verdict["cases"] for task in entry["tasks"])
    for entry in verdict["cases"]:
        moved = entry["traffic"]["to_device"] + entry["traffic"]["from_device"]
        assert moved <= 0.01 * entry["traffic"]["layer_bytes"], "a passing case moves at most 1 % of its layers"
    for name in ("report/index.html", "junit.xml", "summary.md", "layers.parquet", "verdict.json"):
        assert (done.out / "latest" / name).stat().st_size > 0


def test_a_broken_layer_is_named_on_every_chip(bench: Bench) -> None:
    layer = "/encoder.1/Conv_output_0"
    done = bench.gate("--inject", f"drop_bias@{layer}", "--case", "vad-noise")
    assert done.exit_code == 1
    found = {entry["device"]: entry["first_deviating_layers"] for entry in done.verdict["cases"]}
    assert found == {chip: [layer] for chip in CHIPS}
    assert all("confirmed" in entry["reason"] for entry in done.verdict["cases"])
    assert all("it introduces this itself" in entry["reason"] for entry in done.verdict["cases"])
    rows = pq.read_table(done.out / "latest" / "layers.parquet").to_pylist()
    alone = {row["layer"]: row for row in rows if row["device"] == "cortex-a9" and row["alone"]}
    assert alone[layer]["introduced_max_abs"] > 1.0
    for entry in done.verdict["cases"]:
        moved = entry["traffic"]["to_device"] + entry["traffic"]["from_device"]
        assert 0 < moved <= 0.05 * entry["traffic"]["layer_bytes"], "one bad layer moves at most 5 % of the layers"
    shown = bench.lockstep("runs", "show").stdout
    assert "\nkind      gate, " in shown, "the newest run is the gate, not what confirmed it"
    again = re.search(r"\nconfirmed by (\S+)\n", shown)
    assert again
    for text in (shown, bench.lockstep("runs", "show", again[1]).stdout):
        assert (done.out / "latest").resolve().name in text, "it names the report"
    later = [row for name, row in alone.items() if name != layer]
    assert len(later) > 3, "what lies behind it runs alone too"
    assert all(row["alone"] == "pass" and not row["introduced"] for row in later)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nan@/Relu_1_output_0", None),
        ("nan@/encoder.2/Conv_output_0", "NaN"),
        ("swap_channels@/encoder.0/Conv_output_0", "differs from the golden"),
        ("wrong_padding@" + PAD, "differs from the golden"),
        ("scale_weights@/recurrent/LSTM_output_0", "differs from the golden"),
    ],
)
def test_every_kind_of_fault_is_caught_or_refused(bench: Bench, fault: str, words: str | None) -> None:
    done = bench.gate("--inject", fault, "--device", "x86-64-v3", "--case", "vad-speech")
    layer = fault.partition("@")[2]
    if words is None:
        assert done.exit_code == 2
        assert "does not apply to that Relu layer" in done.text
        return
    assert done.exit_code == 1
    entry = done.case("vad-speech", "x86-64-v3")
    assert entry["first_deviating_layer"] == layer
    assert words in entry["reason"]
    rows = pq.read_table(done.out / "latest" / "layers.parquet").to_pylist()
    own = next(4 * (row["count"] or 0) for row in rows if row["layer"] == layer)
    whole, moved = (entry["traffic"]["layer_bytes"], entry["traffic"]["to_device"] + entry["traffic"]["from_device"])
    assert moved <= max(0.05 * whole, own + 0.02 * whole), "5 %, or the bad layer itself where that alone is more"


def test_an_engine_that_is_not_ours_passes_unchanged(bench: Bench) -> None:
    done = bench.gate("--engine", "ort-example", "--artifacts", str(REPOSITORY / "examples" / "ort-runner"))
    assert done.exit_code == 0, done.text
    kinds = {entry["name"]: entry for entry in done.verdict["not_tested"]}
    assert set(kinds) == {"neoverse-v1", "cortex-a53", "cortex-a9", "riscv64"}
    assert not any(entry["required"] for entry in kinds.values())
    assert done.verdict["coverage"]["layers_not_observable"] > 0, "a level-0 engine shows no layers, and that is said"


def test_a_fast_build_passes_fp32_and_fails_bitexact_at_the_first_layer_that_differs(bench: Bench) -> None:
    only = ("--devices", bench.fleet({**HOST, "abis": ["x86-64-v3"]}), "--engine", "refrt-fast")
    loose = bench.gate(*only)
    assert loose.exit_code == 0, loose.text
    strict = bench.gate(*only, "--profile", "bitexact")
    assert strict.exit_code == 1
    first = {entry["case"]: entry["first_deviating_layer"] for entry in strict.verdict["cases"]}
    assert first["orientation-0"] == "p2o.pd_op.conv2d.0.0"
    assert first["vad-noise"] == "/stft/Conv_output_0"
    assert "does not have canonical's bits" in strict.case("vad-noise", "host")["reason"]


def test_a_suite_that_names_a_learned_file_is_judged_by_it_in_the_workers_too(bench: Bench, tmp_path: Path) -> None:
    """A bound a thousand times sharper than fp32's, which passes this build (above), fails it where it was given."""
    learned = yaml.safe_load((REPOSITORY / "thresholds" / "cpu-fp32.yaml").read_text())
    rule = next(entry for entry in learned["rules"] if entry["op"] == "Conv")
    learned |= {"name": "sharp", "rules": [{**rule, "rtol": 5e-8, "capped": False}]}
    (tmp_path / "sharp.yaml").write_text(yaml.safe_dump(learned))
    suite = yaml.safe_load((REPOSITORY / "suites" / "smoke.yaml").read_text())
    suite["cases"] = [{**case, "profile": "learned:sharp.yaml"} for case in suite["cases"] if case["id"] == "vad-noise"]
    (tmp_path / "smoke.yaml").write_text(yaml.safe_dump(suite))
    only = ("--devices", bench.fleet({**HOST, "abis": ["x86-64-v3"]}), "--engine", "refrt-fast")
    done = bench.gate(*only, "--suite", str(tmp_path / "smoke.yaml"))
    assert done.exit_code == 1, done.text
    entry = done.case("vad-noise", "host")
    assert entry["profile"].startswith("learned:sharp@")
    assert entry["first_deviating_layer"] == "/stft/Conv_output_0"


def test_head_against_base_says_what_the_commit_changed(bench: Bench) -> None:
    only = ("--devices", bench.fleet({**HOST, "abis": ["x86-64-v3"]}), "--case", "vad-noise")
    same = bench.gate(*only, "--base", "HEAD")
    entry = same.case("vad-noise", "host")
    assert (entry["status"], entry["changed"]["against"], entry["changed"]["layers_changed"]) == ("pass", "base", 0)
    fast = bench.gate(*only, "--engine", "refrt-fast", "--base", str(_bundle_of(bench)))
    entry = fast.case("vad-noise", "host")
    assert entry["status"] == "pass"
    assert "changed" in entry["notes"]
    assert entry["changed"]["first_changed_layer"] == "/stft/Conv_output_0"


def test_a_failure_that_base_shares_is_not_blamed_on_the_commit(bench: Bench) -> None:
    only = ("--devices", bench.fleet({**HOST, "abis": ["x86-64-v3"]}), "--case", "vad-noise")
    done = bench.gate(*only, "--engine", "refrt-fast", "--profile", "bitexact", "--base", "HEAD")
    entry = done.case("vad-noise", "host")
    assert (done.exit_code, entry["status"]) == (1, "fail"), "only a reviewed expectation turns a failure green"
    assert entry["first_deviating_layer"] == "/stft/Conv_output_0"
    assert "base_fails_too" in entry["notes"]
    assert "base fails at the same layer, so this commit is not the cause" in entry["reason"]


def test_a_crash_that_base_shares_is_not_blamed_on_the_commit(bench: Bench) -> None:
    fleet = bench.fleet(HOST)
    engine = bench.engine("fatal", "kill -SEGV $$")
    done = bench.gate(
        "--engine", engine, "--devices", fleet, "--case", "vad-noise", "--base", str(bench.folder / "fatal")
    )
    entry = done.case("vad-noise", "host")
    assert (done.exit_code, entry["status"], entry["notes"]) == (1, "crashed", ["base_fails_too"])
    assert "base crashed too, so this commit is not the cause" in entry["reason"]


def _bundle_of(bench: Bench) -> Path:
    """The folder of canonical binaries that the last gate deployed."""
    bundles = bench.folder / "state" / "devices" / "host" / "bundles"
    return next(path for path in bundles.iterdir() if (path / "refrt").is_file())


def test_an_accepted_result_is_kept_watched_and_expires(bench: Bench) -> None:
    clone = bench.folder / "clone"
    clone.mkdir()
    for name in ("engine", "engines", "suites", "examples", "setup"):
        (clone / name).symlink_to(REPOSITORY / name)
    fleet = bench.fleet(HOST)
    gate = (
        "gate",
        "--out",
        str(bench.folder / "out"),
        "--devices",
        fleet,
        "--engine",
        "ort-example",
        "--case",
        "vad-noise",
    )
    bench.lockstep(*gate, cwd=clone)
    words = (
        "accept",
        str(bench.folder / "out" / "latest"),
        "--case",
        "vad-noise",
        "--owner",
        "a@b",
        "--reason",
        "right",
    )
    assert bench.lockstep(*words, cwd=clone).exit_code == 0
    path = clone / "expectations" / "x86-64-v1-host" / "vad-noise.yaml"
    after = bench.lockstep(*gate, cwd=clone)
    assert "accepted" in after.case("vad-noise", "host")["notes"]
    path.write_text(path.read_text().replace("expires: null", "expires: '2020-01-01'"))
    expired = bench.lockstep(*gate, cwd=clone)
    assert expired.exit_code == 1
    assert "expired" in expired.case("vad-noise", "host")["reason"]
    assert bench.lockstep(*words[:2], "--case", "vad-nois", *words[4:], cwd=clone).exit_code == 2


def test_verdict_json_holds_what_scripts_rely_on(bench: Bench) -> None:
    done = bench.gate("--engine", "ort-example", "--devices", bench.fleet(HOST), "--case", "vad-noise")
    document = json.loads((done.out / "latest" / "verdict.json").read_text(), parse_constant=pytest.fail)
    assert {"status", "exit_code", "coverage", "devices", "cases", "bit_identity"} <= set(document)
    assert {"case", "device", "status", "first_deviating_layer", "reason"} <= set(document["cases"][0])
    again = bench.lockstep("report", str(done.out / "latest"))
    assert again.exit_code == 0
