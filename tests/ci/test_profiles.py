from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ci.cli.main import cli
from ci.learning import observe, write_learned
from ci.profiles import changes, described, find_profile, read_learned
from ci.sensitivity.subjects import SUBJECTS
from consistency.thresholds import profile
from engine.contract.errors import ConfigError, LockstepError, UsageError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Learned from real runs of two small models."""
    chosen = tuple(replace(subject, inputs=3) for subject in SUBJECTS if subject.name.startswith("voice"))
    folder = tmp_path_factory.mktemp("thresholds", numbered=False)
    observed = observe(ROOT, lambda line: None, chosen)
    write_learned(observed, "small", 0.01, folder, "2026-11-29", "lockstep thresholds learn small")
    return folder


def test_what_real_engines_teach_is_sharper_than_the_base_and_says_where_it_comes_from(folder: Path) -> None:
    found = read_learned("small", folder)
    assert found.evidence.models == ("voice", "voice-frame")
    assert "refrt-fast" in found.evidence.engines
    assert [entry.model for entry in found.held_out] == ["voice", "voice-frame"]
    rules = {rule.op: rule for rule in found.rules}
    assert min(rule.rtol for rule in found.rules) < profile("fp32").floats.rtol
    assert rules["Conv"].largest < rules["Conv"].rtol
    assert found.profile().by_op["Conv"].rtol == rules["Conv"].rtol


def test_show_tells_bounds_and_evidence(folder: Path) -> None:
    told = described("small", folder)
    assert "at most 0.01 false alarms a run, over fp32" in told
    assert "command: lockstep thresholds learn small" in told
    assert [line for line in told.splitlines() if line.startswith("Conv ")]
    assert described("fp32", folder).splitlines()[-1].split() == ["any", "other", "5.0e-05"]


def test_diff_tells_what_gets_wider(folder: Path) -> None:
    lines, wider = changes("fp32", "small", folder)
    assert not wider
    assert lines
    assert not any("WIDER" in line for line in lines)
    lines, wider = changes("small", "fp32", folder)
    assert wider
    assert any("WIDER" in line for line in lines)
    assert changes("fp32", "fp32", folder) == ([], False)


def test_unknown_and_misnamed_files_are_told_in_words(folder: Path) -> None:
    with pytest.raises(UsageError, match="unknown profile 'smal'") as caught:
        find_profile("smal", folder)
    assert "small" in caught.value.message
    text = (folder / "small.yaml").read_text()
    broken = {
        "other.yaml": (text, "is not the file's own"),
        "fp16.yaml": (text.replace("name: small", "name: fp16", 1), "is a profile of the code"),
        "wide.yaml": (text.replace("name: small", "name: wide", 1).replace("rtol: ", "rtol: -"), "rtol"),
        "keys.yaml": (text.replace("name: small", "name: keys\nowner: me", 1), "owner"),
    }
    for name, (content, words) in broken.items():
        (folder / name).write_text(content)
        with pytest.raises(ConfigError, match=words):
            read_learned(str(folder / name))
        (folder / name).unlink()


def test_compare_judges_by_a_learned_profile(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(1).standard_normal(1000).astype(np.float32))
    arguments = ["compare", str(tmp_path / "a.npz"), str(tmp_path / "a.npz"), "--profile", "small"]
    done = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert done.return_value == 0
    assert "profile small" in done.output
    done = CliRunner().invoke(cli, ["thresholds", "diff", "fp32", "small"], standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 0)


def test_a_rate_that_is_none_is_refused_before_anything_runs() -> None:
    done = CliRunner().invoke(cli, ["thresholds", "learn", "x", "--false-alarms", "2"], standalone_mode=False)
    assert isinstance(done.exception, LockstepError)
    assert "no rate" in done.exception.message
