from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reports import ReportError, read_verdict, verdict_schema, write_verdict
from tests.reports import sample


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(verdict_schema())


@pytest.mark.parametrize("name", sorted(set(sample.SAMPLES) - {"large"}))
def test_samples_come_back_as_written(tmp_path: Path, name: str) -> None:
    verdict = sample.SAMPLES[name]().verdict
    path = tmp_path / "verdict.json"
    write_verdict(path, verdict)
    if name != "hostile":  # the one with a NaN
        assert read_verdict(path) == verdict


def set_at(verdict: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    verdict = copy.deepcopy(verdict)
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    node: Any = verdict
    for key in parents:
        node = node[key]
    node[last] = value
    return verdict


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("schema", 2, "at schema: 1 was expected"),
        ("status", "green", "at status: 'green' is not one of"),
        ("exit_code", 2, "at exit_code"),
        ("exit_code", 1, "at exit_code: 0 was expected"),
        ("cases", [], "at cases: "),
        ("surprise", 1, "at top level: Additional properties are not allowed"),
        ("coverage/layers_paired", -1, "at coverage/layers_paired: -1 is less than the minimum"),
        ("cases/0/status", "ok", "at cases/0/status: 'ok' is not one of"),
        ("cases/0/notes", ["nice"], "at cases/0/notes/0"),
        ("cases/0/device", "ghost", "at cases/0/device: 'ghost' is not among the devices"),
        ("cases/0/worst", {"layer": "a"}, "at cases/0/worst"),
        ("cases/0/latency_ms/plain", "fast", "at cases/0/latency_ms/plain"),
        ("chip_pairs/0/b", "ghost", "at chip_pairs/0/b: 'ghost' is not among the devices"),
        (
            "not_tested",
            [{"kind": "device", "name": "a", "reason": "", "next_step": "", "required": True}],
            "not_tested",
        ),
        ("run/phases", [{"name": "plan", "seconds": None}], "at run/phases/0/seconds"),
    ],
)
def test_a_broken_verdict_is_named_by_key_path(tmp_path: Path, path: str, value: object, words: str) -> None:
    verdict = set_at(sample.all_pass().verdict, path, value)
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps(verdict))
    with pytest.raises(ReportError) as caught:
        read_verdict(file)
    assert words in caught.value.message
    assert caught.value.hint.startswith("run the gate again")
    with pytest.raises(ValueError, match="not a verdict"):
        write_verdict(tmp_path / "other.json", verdict)
    assert not (tmp_path / "other.json").exists()


def test_a_device_or_case_listed_twice_is_refused(tmp_path: Path) -> None:
    verdict = sample.all_pass().verdict
    with pytest.raises(ValueError, match="a device is listed twice"):
        write_verdict(tmp_path / "v.json", verdict | {"devices": [*verdict["devices"], verdict["devices"][0]]})
    with pytest.raises(ValueError, match="case 'page-0' on device 'x86-64-v1' is listed twice"):
        write_verdict(tmp_path / "v.json", verdict | {"cases": [*verdict["cases"], verdict["cases"][0]]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not strict JSON"),
        ("{", "not strict JSON"),
        ("[" * 100_000, "not strict JSON"),
        ('{"schema": NaN}', "NaN is not JSON"),
        ('{"schema": -Infinity}', "-Infinity is not JSON"),
        ('{"schema": 1e999}', "1e999 is beyond a double"),
        ('{"schema": 1, "schema": 1}', "key 'schema' is given twice"),
        ("[]", "not a verdict: at top level"),
        ("null", "not a verdict: at top level"),
    ],
)
def test_hostile_text_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "verdict.json"
    path.write_text(text)
    with pytest.raises(ReportError) as caught:
        read_verdict(path)
    assert words in caught.value.message


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(b'{"schema": "\xff\xfe"}')
    with pytest.raises(ReportError, match="not strict JSON"):
        read_verdict(path)


def test_an_absent_run_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"no such file\n  next: name a run folder"):
        read_verdict(tmp_path / "verdict.json")


def test_nan_becomes_null_and_names_stay(tmp_path: Path) -> None:
    run = sample.hostile()
    assert math.isnan(run.verdict["cases"][0]["worst"]["measured"])
    write_verdict(tmp_path / "verdict.json", run.verdict)
    worst = read_verdict(tmp_path / "verdict.json")["cases"][0]["worst"]
    assert worst["measured"] is None
    assert worst["layer"] == "BaNaNa_Infinity"
    assert worst["reason"] == "4 NaN: no number exists"
