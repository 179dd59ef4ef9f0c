"""What a device sends is checked field by field: any JSON is a result or ``RunnerNonsense``, never anything else."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.errors import RunnerNonsense
from engine.contract.result import parse_result

DIGEST = "0" * 32
GOOD = {
    "contract": 1,
    "job": "j",
    "attempt": 1,
    "runner": {"name": "r", "version": "1", "build": "b", "level": 1},
    "effective": {"backend": "cpu", "precision": "fp32", "threads": 1, "affinity": None, "dispatch": "avx2"},
    "passes": [{"kind": "plain", "iteration": 0, "outputs": {"y": DIGEST}, "latency_ns": 5}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 2], "digest": DIGEST, "path": "o/0.bin"}],
    "layers": [{"id": "y", "op": "Relu", "dtype": "float32", "shape": [1, 2], "digest": DIGEST}],
}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_a_complete_result_is_read() -> None:
    result = parse_result(json.dumps(GOOD))
    assert result.layers[0].nonfinite.total == 0
    assert result.layers[0].covers == ()
    assert result.outputs[0].shape == (1, 2)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_text_is_a_result_or_nonsense(text: bytes | str) -> None:
    with pytest.raises(RunnerNonsense):
        parse_result(text)


@given(data=st.data())
def test_any_value_in_any_place_is_a_result_or_nonsense(data: st.DataObject) -> None:
    document = copy.deepcopy(GOOD)
    node: object = document
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))  # type: ignore[arg-type]
        key = data.draw(st.sampled_from(keys))
        child = node[key]  # type: ignore[index]
        if isinstance(child, dict | list) and child and data.draw(st.booleans()):
            node = child
            continue
        node[key] = data.draw(ANY)  # type: ignore[index]
        break
    with contextlib.suppress(RunnerNonsense):
        parse_result(json.dumps(document))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("layers", 0, "shape"), [-1], "not a tensor dimension"),
        (("layers", 0, "shape"), [True], "not a tensor dimension"),
        (("layers", 0, "shape"), [1] * 17, "rank 17"),
        (("layers", 0, "digest"), "xyz", "not a digest"),
        (("runner", "level"), 3, "outside 0 … 2"),
        (("runner", "name"), "x" * 5000, "5000 characters"),
        (("effective", "threads"), True, "is a boolean"),
        (("passes", 0, "kind"), "warm", "known: plain, instrumented, isolated"),
        (("layers", 0, "id"), "half \ud800", "no text"),
        (("contract",), 2, "this farm speaks 1"),
    ],
)
def test_a_wrong_field_is_named_with_its_path(path: tuple[str | int, ...], value: object, words: str) -> None:
    document: object = copy.deepcopy(GOOD)
    node = document
    for key in path[:-1]:
        node = node[key]  # type: ignore[index]
    node[path[-1]] = value  # type: ignore[index]
    with pytest.raises(RunnerNonsense, match=words):
        parse_result(json.dumps(document))


def test_a_layer_named_twice_is_refused() -> None:
    document = copy.deepcopy(GOOD)
    document["layers"] = document["layers"] * 2  # type: ignore[operator]
    with pytest.raises(RunnerNonsense, match="names 'y' twice"):
        parse_result(json.dumps(document))


def test_a_constant_that_is_no_json_is_refused() -> None:
    with pytest.raises(RunnerNonsense, match="NaN is not JSON"):
        parse_result('{"contract": NaN}')
