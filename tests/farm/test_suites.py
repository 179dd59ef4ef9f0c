from pathlib import Path

import pytest
import yaml

from consistency.thresholds import profile
from engine.contract.errors import ConfigError, UsageError
from engine.models.sources import DebianFile, LocalFile, PypiFile, UriFile
from engine.models.tasks import ArgmaxIs, ShareAbove
from farm.floors import find_profile, know_text, text_of
from farm.suites import Suite, find_suite, load_suite

SUITES = Path(__file__).parents[2] / "suites"
SHA = "0" * 64


def small_suite() -> dict[str, object]:
    return {
        "name": "small",
        "models": [{"id": "net", "sha256": SHA, "path": "net.onnx"}],
        "files": [{"id": "page", "sha256": SHA, "uri": "https://example.org/page.png"}],
        "inputs": [
            {"id": "upright", "recipe": "page-orientation", "file": "page", "parameters": {"rotate": 90}},
            {"id": "state", "recipe": "zeros", "parameters": {"shape": [1, 4]}},
        ],
        "cases": [
            {
                "id": "one",
                "model": "net",
                "inputs": {"x": "upright", "h": "state"},
                "tasks": [
                    {"argmax": {"output": "y", "label": "a", "labels": ["a", "b"]}},
                    {"share": {"output": "p", "threshold": 0.5, "at_least": 0.7}},
                ],
            }
        ],
    }


def written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_smoke_suite_has_two_models_and_six_cases() -> None:
    suite = load_suite(SUITES / "smoke.yaml")
    assert [case.id for case in suite.cases] == [
        "orientation-0",
        "orientation-90",
        "orientation-180",
        "orientation-270",
        "vad-speech",
        "vad-noise",
    ]
    assert all(isinstance(entry.origin, PypiFile) for entry in suite.model_files)
    assert [type(entry.origin) for entry in suite.input_files] == [PypiFile, DebianFile]
    assert all(case.checks() for case in suite.cases)
    speech = next(entry for entry in suite.inputs if entry.id == "speech")
    assert int(str(speech.parameters["windows"])) >= 96


def test_a_small_suite_reads_as_written(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, small_suite()))
    assert suite.model_files[0].origin == LocalFile(tmp_path / "net.onnx")
    assert suite.input_files[0].origin == UriFile("https://example.org/page.png")
    assert suite.input_files[0].suffix == ".png"
    assert suite.case("one").checks() == (ArgmaxIs("y", "a", ("a", "b")), ShareAbove("p", 0.5, 0.7, 1.0))
    assert suite.case("one").limits.seconds == 120.0
    assert suite.case("one").profile == "fp32"


def test_prepare_maps_model_inputs_to_tensors(tmp_path: Path) -> None:
    document = small_suite()
    document["cases"][0]["inputs"] = {"h": "state"}  # type: ignore[index]
    suite = load_suite(written(tmp_path, document))
    prepared = suite.prepare(suite.case("one"), {}, tmp_path)
    assert prepared["h"].name == "h"
    assert prepared["h"].shape == (1, 4)


def broken(change: str) -> dict[str, object]:
    document = small_suite()
    cases, inputs, models = document["cases"], document["inputs"], document["models"]
    assert isinstance(cases, list)
    assert isinstance(inputs, list)
    assert isinstance(models, list)
    changes = {
        "unknown key": lambda: cases[0].update(profil="fp32"),
        "unknown model": lambda: cases[0].update(model="nett"),
        "unknown input": lambda: cases[0].update(inputs={"x": "uprigt"}),
        "unknown file": lambda: inputs[0].update(file="pag"),
        "unknown recipe": lambda: inputs[0].update(recipe="page-orientatio"),
        "unknown parameter": lambda: inputs[0].update(parameters={"rotat": 1}),
        "missing parameter": lambda: inputs[1].update(parameters={}),
        "file not wanted": lambda: inputs[1].update(file="page"),
        "file wanted": lambda: inputs[0].pop("file"),
        "two origins": lambda: models[0].update(uri="https://example.org/x"),
        "no origin": lambda: models[0].pop("path"),
        "bad sha": lambda: models[0].update(sha256="12"),
        "label unknown": lambda: cases[0]["tasks"][0]["argmax"].update(label="c"),
        "share of all": lambda: cases[0]["tasks"][1]["share"].update(at_least=0.0),
        "share of none": lambda: cases[0]["tasks"][1]["share"].update(at_most=0.1),
        "two checks": lambda: cases[0]["tasks"][0].update(share=cases[0]["tasks"][1]["share"]),
        "twice": lambda: cases.append(dict(cases[0])),
        "bad profile": lambda: cases[0].update(profile="fp23"),
        "http": lambda: document["files"][0].update(uri="http://example.org/page.png"),  # type: ignore[index]
        "id with slash": lambda: cases[0].update(id="../one"),
    }
    changes[change]()
    return document


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("unknown key", "cases[0].profil: unknown key (did you mean 'profile'?)"),
        ("unknown model", "cases[0].model: unknown model 'nett' (did you mean 'net'?)"),
        ("unknown input", "cases[0].inputs.x: unknown input 'uprigt' (did you mean 'upright'?)"),
        ("unknown file", "inputs[0].file: unknown file 'pag' (did you mean 'page'?)"),
        ("unknown recipe", "unknown recipe 'page-orientatio'"),
        ("unknown parameter", "has no parameter 'rotat' (its parameters: rotate)"),
        ("missing parameter", "needs the parameter 'shape'"),
        ("file not wanted", "takes no source file"),
        ("file wanted", "needs a source file"),
        ("two origins", "given: path, uri"),
        ("no origin", "given: none"),
        ("bad sha", "models[0].sha256"),
        ("label unknown", "label 'c' is not among labels"),
        ("share of all", "every answer passes"),
        ("share of none", "nothing could pass"),
        ("two checks", "exactly one of argmax, share"),
        ("twice", "given twice: one"),
        ("bad profile", "cases[0].profile"),
        ("http", "files[0].uri"),
        ("id with slash", "cases[0].id"),
    ],
)
def test_a_broken_suite_is_refused_in_words(tmp_path: Path, change: str, words: str) -> None:
    path = written(tmp_path, broken(change))
    with pytest.raises(ConfigError) as caught:
        load_suite(path)
    assert words in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_an_unknown_case_or_suite_points_to_the_nearest(tmp_path: Path) -> None:
    suite = load_suite(SUITES / "smoke.yaml")
    with pytest.raises(UsageError, match="did you mean 'vad-noise'"):
        suite.case("vad-nois")
    with pytest.raises(UsageError, match="unknown suite 'smok': did you mean 'smoke'"):
        find_suite(SUITES, "smok")
    assert find_suite(SUITES, "smoke") == SUITES / "smoke.yaml"
    assert find_suite(tmp_path, str(SUITES / "smoke.yaml")) == SUITES / "smoke.yaml"


def test_a_suite_cannot_be_changed() -> None:
    suite = load_suite(SUITES / "smoke.yaml")
    assert isinstance(suite, Suite)
    with pytest.raises(ValueError, match="frozen"):
        suite.name = "other"  # type: ignore[misc]


PAIR = """
name: pair
models:
  - {id: net, path: net.onnx, sha256: "%s"}
  - {id: net-int8, fp32: net, quantise: {inputs: [{x: zero}], operators: [MatMul]}}
inputs: [{id: zero, recipe: zeros, parameters: {shape: [1, 4]}}]
cases: [{id: one, model: net-int8, inputs: {x: zero}, profile: int8}]
"""


def pair(tmp_path: Path, old: str = "", new: str = "") -> Suite:
    path = tmp_path / "pair.yaml"
    text = PAIR % ("0" * 64)
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return load_suite(path)


def test_a_quantised_model_is_declared_beside_the_one_it_is_made_from(tmp_path: Path) -> None:
    suite = pair(tmp_path)
    assert (suite.fp32_of("net-int8"), suite.fp32_of("net")) == ("net", None)
    assert [entry.id for entry in suite.model_files] == ["net"], "what is made here is not fetched"
    made = suite.models[1].quantise
    assert made is not None
    assert made.recipe().operators == ("MatMul",)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fp32: net,", "fp32: nett,", "unknown model 'nett'"),
        ("fp32: net,", "fp32: net-int8,", "'net-int8' is no FP32 model"),
        ("fp32: net, ", "", "`quantise` needs `fp32`"),
        ("{x: zero}]", "{x: zeroes}]", "unknown input 'zeroes'"),
        ("fp32: net,", 'fp32: net, sha256: "' + "1" * 64 + '",', "give no file and no sha256"),
        (', sha256: "' + "0" * 64 + '"', "", "sha256 is missing"),
        ("inputs: [{x: zero}], ", "", "inputs"),
    ],
)
def test_a_pair_that_cannot_be_is_refused_in_words(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        pair(tmp_path, old, new)


def learned_file(path: Path) -> str:
    """A learned profile at ``path``, and the name it judges under."""
    rule = {"op": "Conv", "dtype": "float32", "backend": "cpu", "rtol": 1e-5, "longest": 9}
    rule |= {"layers": 9, "families": 6, "largest": 1e-6}
    counts = {"runs": 1, "blamed": 0, "by_base": 0}
    none = [0.0, 1.0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        yaml.safe_dump(
            {
                "name": path.stem,
                "base": "fp32",
                "false_alarms_per_run": 0.01,
                "margin": 2.0,
                "excesses": {"a": 1.0},
                "evidence": {
                    "date": "2026-11-29",
                    "command": "",
                    "families": {"a": ["a"]},
                    "engines": [{"engine": "e", "chip": "c", "models": ["m"], "runs": 1}],
                    "versions": {"v": "1"},
                    "runs": 1,
                    "layers": 1,
                },
                "held_out": [{"family": "a", "models": ["a"], **counts}],
                "achieved": {
                    **counts,
                    "added": 0,
                    "added_interval": none,
                    "families": 1,
                    "families_added": 0,
                    "families_added_interval": none,
                },
                "rules": [rule],
            }
        )
    )
    return find_profile(str(path)).name


def test_a_case_may_name_a_learned_file_from_the_suite_s_folder(tmp_path: Path) -> None:
    name = learned_file(tmp_path / "thresholds" / "quiet.yaml")
    path = tmp_path / "suites" / "own.yaml"
    path.parent.mkdir()
    document = small_suite()
    document["cases"][0].update(  # type: ignore[index]
        profile="learned:../thresholds/quiet.yaml"
    )
    path.write_text(yaml.safe_dump(document))
    (case, *_) = load_suite(path).cases
    assert case.profile == name
    assert profile(case.profile).base == "fp32"
    assert know_text(text_of(case.profile)) == name
    document["cases"][0].update(  # type: ignore[index]
        profile="learned:../thresholds/quite.yaml"
    )
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"profile: .*quite\.yaml is not there"):
        load_suite(path)
    (tmp_path / "thresholds" / "quiet.yaml").write_text("name: quiet\n")
    document["cases"][0].update(  # type: ignore[index]
        profile="learned:../thresholds/quiet.yaml"
    )
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"quiet\.yaml: base"):
        load_suite(path)
