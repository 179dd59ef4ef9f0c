from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The runner pointed to a folder of two measurements, one of which fails."""
    spec = importlib.util.spec_from_file_location("bench_all", ROOT / "bench" / "_all.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "good.py").write_text('import sys; open(sys.argv[2], "w").write(\'{"ms": 5}\')\n')
    (tmp_path / "bad.py").write_text("import sys; sys.exit(3)\n")
    (tmp_path / "_helper.py").write_text("raise SystemExit(9)\n")
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "OUT", tmp_path / "out")
    return module


def test_all_figures_are_merged_and_a_failure_is_not_hidden(
    runner: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert runner.main([]) == 1
    merged = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert merged["figures"] == {"good": {"ms": 5}}
    assert merged["failed"] == ["bad"]
    assert merged["host"]["cpus"] > 0
    assert "bad left with 3 and no figures" in capfd.readouterr().err


def test_one_measurement_can_be_chosen_and_an_unknown_one_is_refused(
    runner: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["good"]) == 0
    assert runner.main(["absent"]) == 2
    assert "no such measurement: absent\n  next: choose of bad, good" in capsys.readouterr().err
