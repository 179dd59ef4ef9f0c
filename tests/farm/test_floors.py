"""Learned files are data from elsewhere: what is wrong with one is told by place, and nothing half-read ever judges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from consistency.records import Scale
from consistency.thresholds import profile
from engine.contract.errors import ConfigError, LockstepError, UsageError
from farm.floors import MAX_TEXT, find_profile, know, know_text, read_learned, recall, text_of

ONE = Scale(1.0, 1.0, 1.0)
RULE = {
    "op": "Conv",
    "dtype": "float32",
    "backend": "cpu",
    "rtol": 4e-6,
    "growth": 0.5,
    "longest": 9,
    "layers": 20,
    "families": 6,
    "largest": 1e-6,
}


def document(name: str = "quiet", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "base": "fp32",
        "false_alarms_per_run": 0.01,
        "margin": 4.0,
        "excesses": {"a": 1.0},
        "evidence": {
            "date": "2026-11-29",
            "command": "lockstep thresholds learn quiet",
            "families": {"a": ["a1", "a2"]},
            "engines": [{"engine": "e", "chip": "c", "models": ["m"], "runs": 1}],
            "versions": {"onnxruntime": "1"},
            "runs": 10,
            "layers": 20,
        },
        "held_out": [{"family": "a", "models": ["a1"], "runs": 10, "blamed": 1, "by_base": 1}],
        "achieved": {
            "runs": 10,
            "blamed": 1,
            "by_base": 1,
            "added": 0,
            "added_interval": [0.0, 0.31],
            "families": 1,
            "families_added": 0,
            "families_added_interval": [0.0, 0.975],
        },
        "rules": [dict(RULE)],
        **more,
    }


def written(folder: Path, name: str = "quiet", **more: Any) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document(name, **more)))
    return path


def test_a_file_is_found_by_name_and_by_path_and_judges(tmp_path: Path) -> None:
    path = written(tmp_path)
    by_name, by_path = find_profile("quiet", tmp_path), find_profile(str(path))
    assert by_name == by_path == find_profile(f"learned:{path}") == profile(by_name.name)
    assert by_name.name.startswith("learned:quiet@")
    assert by_name.base == "fp32"
    assert by_name.bound("Conv", "float32", ONE, 4) == pytest.approx(8e-6)
    assert by_name.bound("Conv", "float32", ONE) == pytest.approx(12e-6)
    assert by_name.bound("Conv", "float32", ONE, 10) == pytest.approx(5e-5)
    assert find_profile("fp16", tmp_path) is profile("fp16")


def test_other_numbers_are_another_profile(tmp_path: Path) -> None:
    first = find_profile(str(written(tmp_path)))
    second = find_profile(str(written(tmp_path, rules=[{**RULE, "rtol": 5e-6}])))
    assert first.name != second.name
    assert profile(first.name) == first


def test_a_job_carries_all_that_a_worker_needs(tmp_path: Path) -> None:
    name = know(read_learned(str(written(tmp_path, rules=[{**RULE, "rtol": 7e-6}]))))
    assert text_of("fp32") == ""
    assert know_text("") == ""
    assert know_text(text_of(name)) == name


@pytest.mark.parametrize(
    ("text", "words"), [("{", "no JSON"), ("[]", "floors"), ("{}", "floors"), ("[" * 100_000, "JSON|floors")]
)
def test_a_job_with_malformed_floors_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        know_text(text)


def test_a_job_with_endless_floors_is_refused() -> None:
    with pytest.raises(ConfigError, match="at most"):
        know_text(" " * (MAX_TEXT + 1))


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["rules"][0].update(rtol=-1.0), r"rules\[0\].rtol"),
        (lambda d: d["rules"][0].update(rtol=float("nan")), r"rules\[0\].rtol"),
        (lambda d: d["rules"][0].update(rtol=float("inf")), r"rules\[0\].rtol"),
        (lambda d: d["rules"][0].update(growth=1.5), r"rules\[0\].growth"),
        (lambda d: d["rules"][0].update(longest=-1), r"rules\[0\].longest"),
        (lambda d: d["rules"][0].update(longest=10**30), r"rules\[0\].longest"),
        (lambda d: d["rules"][0].update(dtype="float33"), "float33"),
        (lambda d: d["rules"][0].update(dtype="uint8"), "has integer and no rtol"),
        (lambda d: d["rules"][0].update(integer={"max_lsb": 1, "max_differing": 0.1}), "has rtol and no integer"),
        (lambda d: d["rules"][0].pop("rtol"), "has rtol and no integer"),
        (lambda d: d["rules"][0].update(owner="me"), "owner"),
        (lambda d: d["rules"].append(dict(RULE)), "Conv float32 cpu is given twice"),
        (lambda d: d.update(rules=[]), "rules"),
        (lambda d: d.update(base="fp31"), "base"),
        (lambda d: d.update(base="bitexact"), "base"),
        (lambda d: d.update(margin=0.5), "margin"),
        (lambda d: d.update(name="../quiet"), "name"),
        (lambda d: d.update(false_alarms_per_run=0), "false_alarms_per_run"),
        (lambda d: d["achieved"].update(added_interval=[0.0, 2.0]), "added_interval"),
        (lambda d: d.pop("evidence"), "evidence"),
    ],
)
def test_a_malformed_file_is_refused_with_the_place(tmp_path: Path, change: Change, words: str) -> None:
    made = document()
    change(made)
    path = tmp_path / "quiet.yaml"
    path.write_text(yaml.safe_dump(made))
    with pytest.raises(ConfigError, match=words) as caught:
        find_profile("quiet", tmp_path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "a: [", "- 1", "\x00", "!!python/object:os.system {}", "&a [*a]"])
def test_what_is_no_such_file_at_all_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(LockstepError, match=r"odd\.yaml"):
        find_profile("odd", tmp_path)


def test_unknown_and_misnamed_files_are_told_in_words(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(UsageError, match="unknown profile 'quie'") as caught:
        find_profile("quie", tmp_path)
    assert "quiet" in caught.value.message
    with pytest.raises(UsageError, match="unknown learned profile"):
        find_profile("learned:none.yaml", tmp_path)
    path.rename(tmp_path / "other.yaml")
    with pytest.raises(ConfigError, match="is not the file's own"):
        find_profile("other", tmp_path)
    (tmp_path / "fp16.yaml").write_text(yaml.safe_dump(document("fp16")))
    with pytest.raises(ConfigError, match="is a profile of the code"):
        read_learned("fp16", tmp_path)


def test_the_profile_of_an_earlier_run_is_recalled_only_while_its_file_is_the_same(tmp_path: Path) -> None:
    rules = [{**RULE, "rtol": 9e-6}]
    name = read_learned(str(written(tmp_path, rules=rules))).full_name
    assert know_text(recall(name, tmp_path)) == name
    gone = read_learned(str(written(tmp_path, rules=[{**RULE, "rtol": 8e-6}]))).full_name
    written(tmp_path)
    with pytest.raises(UsageError, match="was judged by learned:quiet@"):
        recall(gone, tmp_path)
    assert recall("fp32", tmp_path) == ""
