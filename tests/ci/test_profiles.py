from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ci.cli.main import cli
from ci.learning.observe import Observed, Ran, observe
from ci.learning.subjects import FAMILIES, LEARNED_FROM, family_of
from ci.learning.write import write_learned
from ci.profiles import changes, described
from ci.sensitivity.subjects import SUBJECTS
from consistency.records import Scale, Stats
from consistency.thresholds import PROFILE_NAMES, profile
from consistency.thresholds.fitting import LEAST_FAMILIES, Observation
from engine.contract.errors import LockstepError, UsageError
from farm.floors import find_profile, read_learned

ROOT = Path(__file__).parents[2]
NOISE = {"Conv": 1e-6, "Relu": 2e-6, "QuantizeLinear": 1.0}


def seen(family: str, op: str, run: int, factor: float) -> Observation:
    error, dtype = NOISE[op] * factor, "uint8" if op == "QuantizeLinear" else "float32"
    if dtype == "uint8":
        error = 1.0
    stats = Stats(100_000, round(100 * factor), 0, error, 0, 1.0, 1.0, 0.0, 0.0, 1e5, 1e5, 1e5, 0)
    scale = Scale(1.0, 1.0, 0.1)
    return Observation(family, f"{family}-1", f"{family}/{run}", f"{op}-out", op, dtype, "cpu", 9, stats, scale)


def observed(families: int = 7, *ops: str) -> Observed:
    entries = [
        seen(f"f{number}", op, run, 1 + 0.1 * number)
        for number in range(families)
        for op in ops or ("Conv", "Relu")
        for run in range(3)
    ]
    ran = (Ran("an engine", "this host", ["f0-1"], 3), Ran("fast on a9", "a9 (qemu-arm, armv7)", ["f0-1", "f1-1"], 2))
    return Observed(tuple(entries), ran, ())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("thresholds", numbered=False)
    for name, base, ops in (("small", "fp32", ()), ("small-int8", "int8", ("QuantizeLinear",))):
        made = observed(7, *ops)
        write_learned(made, name, base, 0.05, folder, "2026-11-29", f"lockstep thresholds learn {name}")
    return folder


def test_the_file_holds_rules_and_the_evidence_for_them(folder: Path) -> None:
    found = read_learned("small", folder)
    assert found.evidence.families["f3"] == ("f3-1",)
    assert (found.evidence.runs, found.evidence.layers) == (21, 42)
    assert [(entry.family, entry.runs, entry.blamed) for entry in found.held_out][:2] == [("f0", 3, 0), ("f1", 3, 0)]
    assert (found.achieved.runs, found.achieved.added, found.achieved.families) == (21, 0, 7)
    assert found.achieved.added_interval == (0.0, 0.161)
    rules = {rule.op: rule for rule in found.rules}
    assert rules["Conv"].largest < (rules["Conv"].rtol or 0) < profile("fp32").floats.rtol
    quantised = {rule.op: rule for rule in read_learned("small-int8", folder).rules}["QuantizeLinear"]
    assert quantised.dtype == "uint8"
    assert quantised.integer is not None
    assert 0.0016 < quantised.integer.max_differing < 0.01


def test_the_same_evidence_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write_learned(observed(), "small", "fp32", 0.05, tmp_path, "2026-11-29", "lockstep thresholds learn small")
    assert (tmp_path / "small.yaml").read_bytes() == (folder / "small.yaml").read_bytes()


def test_too_few_families_write_nothing(tmp_path: Path) -> None:
    few = observed(LEAST_FAMILIES - 1)
    with pytest.raises(UsageError, match="nothing can be learned from 4 families"):
        write_learned(few, "few", "fp32", 0.05, tmp_path, "2026-11-29", "")
    assert list(tmp_path.iterdir()) == []


def test_show_tells_bounds_and_evidence(folder: Path) -> None:
    told = described("small", folder)
    assert "over fp32, stated rate 0.05 false alarms a run" in told
    assert "held out, 0 of 21 runs blamed that fp32 passes (95 %: 0 … 0.161)" in told
    assert "  f0: 0 of 3 blamed, 0 of them by fp32 too" in told
    assert "any other operator, dtype, backend or longer reduction: the rule of fp32" in told
    assert "  fast on a9: 2 runs of 2 models on a9 (qemu-arm, armv7)" in told
    (conv,) = [line.split() for line in told.splitlines() if line.startswith("Conv ")]
    assert conv[3] == conv[4] < conv[5] == "5.0e-05"  # bound and fitted below the base's
    assert float(conv[7]) == pytest.approx(5e-5 / float(conv[6]), rel=0.05)
    assert "1 LSB, " in described("small-int8", folder)
    for name in PROFILE_NAMES:
        assert described(name, folder).splitlines()[0].split() == ["operator", "rtol"]
    assert "uint8                    1 LSB in at most 1 % of the elements" in described("int8")


def test_show_tells_where_the_base_stays_and_above_which_rate_it_would_not(tmp_path: Path) -> None:
    loud = [seen(f"f{number}", "Conv", 0, 10 + number * number / 2) for number in range(7)]
    write_learned(Observed(tuple(loud), (), ()), "loud", "fp32", 0.01, tmp_path, "2026-11-29", "")
    rule = next(rule for rule in read_learned("loud", tmp_path).rules if rule.op == "Conv")
    assert rule.capped
    assert rule.fitted is not None
    assert rule.fitted > 5e-5
    assert rule.sharper_above is not None
    (line,) = [line for line in described("loud", tmp_path).splitlines() if line.startswith("Conv ")]
    assert line.endswith(f"the bound of fp32 stays, sharper above a rate of {rule.sharper_above:g}")
    write_learned(Observed(tuple(loud), (), ()), "often", "fp32", rule.sharper_above * 1.2, tmp_path, "2026-11-29", "")
    assert not any(rule.capped for rule in read_learned("often", tmp_path).rules)


def test_diff_tells_what_gets_wider(folder: Path) -> None:
    lines, wider = changes("fp32", "small", folder)
    assert not wider
    assert lines
    assert not any("WIDER" in line for line in lines)
    lines, wider = changes("small", "fp32", folder)
    assert wider
    assert any(line.startswith("Conv float32 cpu") and "WIDER" in line for line in lines)
    assert changes("fp32", "fp32", folder) == ([], False)
    lines, wider = changes("small-int8", "int8", folder)
    assert wider
    assert any("differing" in line for line in lines)
    assert changes("int8", "fp32", folder)[1] is False


def test_compare_gate_show_and_diff_take_learned_names(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(1).standard_normal(1000).astype(np.float32))
    for name in ("small", "thresholds/small.yaml", "learned:thresholds/small.yaml"):
        arguments = ["compare", str(tmp_path / "a.npz"), str(tmp_path / "a.npz"), "--profile", name]
        done = CliRunner().invoke(cli, arguments, standalone_mode=False)
        assert done.return_value == 0
        assert f"profile {find_profile('small', folder).name}" in done.output
        assert CliRunner().invoke(cli, ["thresholds", "show", name], standalone_mode=False).return_value == 0
        done = CliRunner().invoke(cli, ["thresholds", "diff", "fp32", name], standalone_mode=False)
        assert (done.exception, done.return_value) == (None, 0)


@pytest.mark.parametrize("rate", ["2", "0", "-1", "nan"])
def test_a_rate_that_is_none_is_refused_before_anything_runs(rate: str) -> None:
    done = CliRunner().invoke(cli, ["thresholds", "learn", "x", "--false-alarms", rate], standalone_mode=False)
    assert isinstance(done.exception, LockstepError)
    assert "no rate" in done.exception.message


def test_real_engines_of_16_bits_are_beside_the_golden_by_more_than_those_of_32() -> None:
    subjects = [replace(subject, inputs=1) for subject in SUBJECTS if subject.name == "voice-frame"]
    largest = {}
    for precision in ("fp16", "bf16"):
        found = observe(ROOT, precision, lambda line: None, subjects)
        assert found.left_out == ()
        assert {entry.family for entry in found.observations} == {"silero"}
        assert {entry.dtype for entry in found.observations} >= {"float32"}
        assert {entry.length for entry in found.observations if entry.op == "LSTM"} == {256}
        largest[precision] = max(
            entry.stats.max_abs / entry.scale.max_abs for entry in found.observations if entry.op == "Conv"
        )
    assert 1e-4 < largest["fp16"] < largest["bf16"]


def test_real_engines_of_8_bits_are_compared_in_codes() -> None:
    subjects = [replace(subject, inputs=1) for subject in SUBJECTS if subject.name == "voice-frame"]
    found = observe(ROOT, "int8", lambda line: None, subjects)
    assert found.left_out == ()
    codes = [entry for entry in found.observations if entry.dtype == "uint8"]
    assert {entry.op for entry in codes} >= {"QuantizeLinear"}
    assert all(entry.stats.max_abs.is_integer() for entry in codes)


def test_every_family_is_of_models_that_are_there() -> None:
    assert set(FAMILIES) <= {subject.name for subject in LEARNED_FROM}
    assert len({family_of(subject) for subject in LEARNED_FROM}) >= LEAST_FAMILIES + 2


@pytest.mark.parametrize("path", sorted((ROOT / "thresholds").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_files_of_the_repository_are_no_wider_than_their_base_and_keep_their_rate(path: Path) -> None:
    found = read_learned(path.stem, path.parent)
    lines, wider = changes(found.base, path.stem, path.parent)
    assert not wider, lines
    assert found.achieved.added <= found.false_alarms_per_run * found.achieved.runs
    assert found.achieved.families >= LEAST_FAMILIES


@pytest.mark.parametrize(("name", "chips"), [("cpu-fp32", 5), ("cpu-fp16", 1), ("cpu-bf16", 1), ("cpu-int8", 1)])
def test_the_evidence_in_the_repository_is_of_other_chips_too(name: str, chips: int) -> None:
    ran = read_learned(name, ROOT / "thresholds").evidence.engines
    assert len({entry.chip for entry in ran if "this host" not in entry.chip}) == chips
    everywhere = [entry for entry in ran if "ort-layers" in entry.engine]
    assert everywhere
    unquantised = name == "cpu-int8"  # one model cannot be quantised
    assert {len(entry.models) for entry in everywhere} == {len(LEARNED_FROM) - unquantised}
