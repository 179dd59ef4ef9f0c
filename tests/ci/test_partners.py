"""Which tensor is which, through ``lockstep compare``: names, declarations, fused layers; and how sure each pair is."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.ci.test_compare import compare, layers, save, save_trace, strict  # noqa: F401 - a fixture

RANDOM = np.random.default_rng(11)
X, W = RANDOM.normal(size=(1, 4, 6)).astype(np.float32), RANDOM.normal(size=6).astype(np.float32)
CONV = X * 3
BIASED = CONV + W
RELU = np.maximum(BIASED, 0)
OUT = (RELU * 2).astype(np.float32)


def graph(folder, *, without=(), **changed):
    entries = [
        ("conv", "Conv", ("x",), CONV),
        ("bn", "BatchNormalization", ("conv",), BIASED),
        ("relu", "Relu", ("bn",), RELU),
        ("out", "MatMul", ("relu",), OUT),
    ]
    kept = [(name, op, inputs, changed.get(name, values)) for name, op, inputs, values in entries]
    save_trace(folder, [entry for entry in kept if entry[0] not in without])


def test_equal_names_and_operators_are_certain(compare, tmp_path):  # noqa: F811
    graph(tmp_path / "a")
    graph(tmp_path / "b")
    code, out, _ = compare("a", "b", "--json")
    assert code == 0
    assert all(entry["paired"]["confidence"] == 1.0 for entry in strict(out)["layers"])


def test_another_operator_under_the_same_name_is_less_sure_and_said(compare, tmp_path):  # noqa: F811
    save_trace(tmp_path / "a", [("y", "Conv", ("x",), CONV)])
    save_trace(tmp_path / "b", [("y", "Gemm", ("x",), CONV)])
    code, out, _ = compare("a", "b")
    assert code == 0
    assert "paired with y by name only: Conv and Gemm (confidence 0.5)" in " ".join(out.split())


def test_two_lone_tensors_are_a_pair_that_is_hardly_sure(compare):  # noqa: F811
    np.save("a.npy", CONV)
    np.save("b.npy", CONV)
    code, out, _ = compare("a.npy", "b.npy", "--json")
    (only,) = strict(out)["layers"]
    assert (code, only["paired"]) == (0, {"with": "b", "by": "the only tensor of each side", "confidence": 0.4})


@pytest.mark.parametrize(("name", "without"), [("conv", ("bn", "relu")), ("conv", ("bn",)), ("bn", ("relu",))])
def test_a_fused_layer_that_kept_its_first_name_is_paired_by_its_values(compare, tmp_path, name, without):  # noqa: F811
    last = {"relu": RELU, "bn": BIASED}[without[-1]]
    graph(tmp_path / "a")
    graph(tmp_path / "b", without=without, **{name: last})
    code, out, _ = compare("a", "b", "--json")
    found = layers(out)
    assert (code, strict(out)["status"]) == (0, "pass")
    assert found[without[-1]]["paired"] == {"with": name, "by": "values of a fused layer", "confidence": 0.7}
    assert found[without[-1]]["status"] == "pass"
    hidden = [name, *without[:-1]]
    for other in hidden:
        shown = found[other]
        assert (shown["status"], shown["paired"], shown["metrics"]) == ("not_observable", None, None)
        assert f"fused into `{without[-1]}`" in shown["reason"]
    assert strict(out)["coverage"]["not_observable"] == len(hidden)
    assert strict(out)["coverage"]["compared"] == 4 - len(hidden)
    _, text, _ = compare("a", "b")
    assert "not observable: fused into others, which is not equal" in text


def test_wrong_values_are_no_fused_layer(compare, tmp_path):  # noqa: F811
    graph(tmp_path / "a")
    graph(tmp_path / "b", without=("bn", "relu"), conv=RELU + np.float32(0.5))
    code, out, _ = compare("a", "b", "--json")
    found = layers(out)
    assert (code, found["conv"]["status"], found["relu"]["status"]) == (1, "fail", "missing")


def test_a_layer_that_is_there_by_its_own_name_is_not_taken_for_another(compare, tmp_path):  # noqa: F811
    graph(tmp_path / "a")
    graph(tmp_path / "b", conv=BIASED)
    code, out, _ = compare("a", "b", "--json")
    assert (code, layers(out)["conv"]["status"], layers(out)["bn"]["status"]) == (1, "fail", "pass")


def test_a_missing_layer_that_may_be_fused_is_a_hint_and_not_equal(compare, tmp_path):  # noqa: F811
    graph(tmp_path / "a")
    graph(tmp_path / "b", without=("conv", "bn"))
    code, out, _ = compare("a", "b", "--json")
    assert code == 3
    assert layers(out)["conv"]["status"] == "missing"
    assert "perhaps fused into `relu`, which alone reads it" in layers(out)["conv"]["reason"]


def write_meta(document):
    Path("m.json").write_text(json.dumps(document))


def test_a_converters_record_pairs_other_names_and_covers_what_was_fused(compare):  # noqa: F811
    save("a.npz", conv=CONV, bn=BIASED, relu=RELU)
    save("b.npz", layer_7=RELU)
    assert compare("a.npz", "b.npz", "--json")[0] == 3
    write_meta({"B": {"layer_7": {"of": "relu", "covers": ["conv", "bn"]}}})
    code, out, _ = compare("a.npz", "b.npz", "--meta", "m.json", "--json")
    found = layers(out)
    assert code == 0
    assert found["relu"]["paired"] == {"with": "layer_7", "by": "declared", "confidence": 1.0}
    assert {found[name]["status"] for name in ("conv", "bn")} == {"not_observable"}
    assert "paired with layer_7 by declared (confidence 1)" in compare("a.npz", "b.npz", "--meta", "m.json")[1]


def test_a_declared_name_may_be_another_tensors_own(compare):  # noqa: F811
    save("a.npz", conv=CONV, relu=RELU)
    save("b.npz", conv=RELU)
    write_meta({"B": {"conv": {"of": "relu", "covers": ["conv"]}}})
    code, out, _ = compare("a.npz", "b.npz", "--meta", "m.json", "--json")
    assert (code, layers(out)["conv"]["status"], layers(out)["relu"]["status"]) == (0, "not_observable", "pass")


def test_covering_alone_compares_nothing(compare):  # noqa: F811
    save("a.npz", conv=CONV)
    save("b.npz", other=RELU, more=X)
    write_meta({"B": {"other": {"covers": ["conv"]}}})
    code, out, _ = compare("a.npz", "b.npz", "--meta", "m.json", "--json", "--allow-extra")
    assert (code, strict(out)["reasons"]) == (3, ["nothing was compared"])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"B": {"y": {"of": "rellu"}}}, "B.y.of: rellu: no such tensor"),
        ({"B": {"y": {"covers": ["con"]}}}, "B.y.covers: con: no such tensor"),
        ({"A": {"conv": {"of": "relu"}}}, "of and covers say what B's tensors are of A; declare them for B"),
        ({"B": {"y": {"of": "relu"}, "z": {"of": "relu"}}}, "'relu' is the `of` of two tensors"),
    ],
)
def test_a_record_that_cannot_be_is_refused(compare, told, words):  # noqa: F811
    save("a.npz", conv=CONV, relu=RELU)
    save("b.npz", y=RELU, z=RELU)
    write_meta(told)
    code, _, err = compare("a.npz", "b.npz", "--meta", "m.json")
    assert code == 2
    assert words in " ".join(err.split())
