import sys
from pathlib import Path

import pytest

import ci.contract_probe
from ci.contract_check import CheckResult, check_runner
from ci.contract_probe import tiny_model
from engine.bundle import BuildSpec, build_bundle
from engine.contract.errors import UsageError
from engine.places import cache_root
from farm.engines import load_engine

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).parent / "fake_runner.py"
SIZE = str(len(tiny_model().SerializeToString()))


def checked(tmp_path: Path, fault: str) -> list[CheckResult]:
    return check_runner([sys.executable, str(FAKE), fault, SIZE], "onnx", tmp_path)


def test_a_runner_of_level_2_passes_every_check(tmp_path: Path) -> None:
    results = checked(tmp_path, "none")
    assert [result for result in results if not result.ok] == []
    assert len(results) == 16
    assert results[0].detail == "fake 1 plain, level 2"


def test_a_runner_of_level_0_is_not_asked_for_layers(tmp_path: Path) -> None:
    results = checked(tmp_path, "level 0")
    assert [result for result in results if not result.ok] == []
    assert len(results) == 12


@pytest.mark.parametrize(("name", "level"), [("ort_runner.py", 0), ("ort_layers.py", 2)])
def test_the_example_engines_keep_the_contract(tmp_path: Path, name: str, level: int) -> None:
    runner = [sys.executable, str(ROOT / "examples" / "ort-runner" / name)]
    results = check_runner(runner, "onnx", tmp_path)
    assert [result for result in results if not result.ok] == []
    assert f"level {level}" in results[0].detail


def test_the_referee_engine_keeps_the_contract(tmp_path: Path) -> None:
    manifest = load_engine(ROOT / "engines", "refrt")
    assert manifest.build
    spec = BuildSpec(manifest.build.command, manifest.build.sources)
    bundle = build_bundle("refrt", "x86-64", ["refrt"], spec, ROOT, cache=cache_root(), python=sys.executable)
    results = check_runner([str(bundle.root / "refrt")], "refrt", tmp_path)
    assert [result for result in results if not result.ok] == []
    assert "level 2" in results[0].detail
    assert "an isolated layer runs on the given inputs" in [result.name for result in results]
    assert len(results) == 16


#: Runners, each broken in several ways at once: (fault, the check that must catch it, words it must say).
BROKEN = [
    [
        ("wrong job", "a good request is answered", "answers job 'another'"),
    ],
    [
        ("no result", "a good request is answered", "result.json is not there"),
    ],
    [
        ("not JSON", "a good request is answered", "result.json is not JSON"),
    ],
    [
        ("wrong digest", "outputs are the bytes", "the result states 00000000"),
        ("one iteration", "every iteration is reported", "two plain iterations were asked"),
        ("stray", "result.json is there only when complete", "stray.log"),
        ("crashes on bad JSON", "a request that is no JSON exits 2", "exit code 1, 2 expected"),
        ("any contract", "a request of another contract exits 2", "exit code 0, 2 expected"),
        ("no model needed", "a missing model exits 2", "exit code 0, 2 expected"),
        ("any input", "an input of the wrong size is refused", "exit code 0"),
        ("any backend", "an unknown backend exits 3", "exit code 0, 3 expected"),
        ("disorder", "the instrumented pass lists layers", "not in the model's order"),
        ("forgets keep", "kept layers are the bytes", "those of [] are named"),
        ("isolated differs", "an isolated layer runs", "gives other bits"),
    ],
    [
        ("cut output", "outputs are the bytes", "holds 8 bytes, its dtype and shape need 16"),
        ("chatter", "progress is JSON lines", "b'starting', not a JSON line"),
        ("changes its input", "result.json is there only when complete", "x.bin"),
        ("dies on a cut model", "a truncated model is refused", "signal 6"),
        ("backend unnamed", "an unknown backend exits 3", "does not name the backend 'abacus'"),
        ("wrong kept bytes", "kept layers are the bytes", "the result states"),
    ],
    [
        ("wrong answer", "the answer is the model's", "differs from ONNX Runtime by 0.5"),
        ("torn", "result.json is there only when complete", "half-written"),
        ("any model", "a truncated model is refused", "exit code 0, 2 or 3 or 4 expected"),
        ("wrong shape", "the instrumented pass lists layers", "is float32[3, 6, 5], not float32[1, 3, 6, 5]"),
        ("wrong statistics", "statistics against the golden are right", "stats.max_abs"),
        ("isolated unmarked", "an isolated layer runs", "0 isolated layers carry its id"),
    ],
    [
        ("outside", "outputs are the bytes", "names a file outside its folder"),
        ("silent", "a request that is no JSON exits 2", "without a word on stderr"),
        ("no layers", "the instrumented pass lists layers", "no layer of the model is listed"),
    ],
    [
        ("output unnamed", "outputs are the bytes", "outputs are [], the model has ['scores']"),
        ("no statistics", "statistics against the golden are right", "carries no stats"),
        ("foreign layer", "the instrumented pass lists layers", "'conv1_fused' is no tensor of the model"),
    ],
    [
        ("unknown type", "outputs are the bytes", "unknown dtype 'float31'"),
        ("left half", "result.json is there only when complete", "rest.tmp"),
    ],
]


@pytest.mark.parametrize("faults", BROKEN, ids=[group[0][0] for group in BROKEN])
def test_a_runner_that_breaks_the_contract_is_caught(faults: list[tuple[str, str, str]], tmp_path: Path) -> None:
    failed = [result for result in checked(tmp_path, ",".join(fault for fault, _, _ in faults)) if not result.ok]
    for fault, check, words in faults:
        named = [result for result in failed if result.name.startswith(check)]
        assert len(named) == 1, fault
        assert words in named[0].detail


def test_a_runner_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ci.contract_probe, "SECONDS", 1.0)
    results = check_runner([sys.executable, "-c", "import time; time.sleep(60)"], "onnx", tmp_path / "scratch")
    assert [result.ok for result in results] == [False]
    assert results[0].detail == "no answer within 1 s; exit code 0 expected"


def test_a_runner_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be started: No such file") as caught:
        check_runner(["./no-such-runner"], "onnx", tmp_path)
    assert caught.value.hint
