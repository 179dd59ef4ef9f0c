from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.contract.errors import ModelError
from engine.models.golden import golden_trace
from engine.models.quantise import Recipe, quantised_model

GENERATOR = np.random.default_rng(5)
X = [{"x": GENERATOR.standard_normal((1, 2, 4, 4)).astype(np.float32)} for _ in range(3)]


@pytest.fixture
def fp32(small_model: onnx.ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(small_model.SerializeToString())
    return path


def test_it_computes_nearly_the_same_and_its_tensors_keep_their_names(fp32: Path, tmp_path: Path) -> None:
    made = quantised_model(fp32, X, Recipe(), tmp_path / "q")
    before, after = golden_trace(fp32, X[0], tmp_path), golden_trace(made, X[0], tmp_path)
    names = {layer.id for layer in before.layers}
    assert names <= {layer.id for layer in after.layers}, "the small model has no BatchNormalization to fold away"
    (wanted,), (got,) = before.finals, after.finals
    distance = np.abs(before.tensor(wanted) - after.tensor(got)).max()
    assert 0 < distance < 0.2 * wanted.summary.max_abs
    assert {"uint8"} == {layer.dtype for layer in after.layers if layer.op == "QuantizeLinear"}


def test_the_same_four_give_the_same_file_and_anything_else_another(fp32: Path, tmp_path: Path) -> None:
    first = quantised_model(fp32, X, Recipe(), tmp_path / "a")
    again = quantised_model(fp32, X, Recipe(), tmp_path / "b")
    assert (first.name, first.read_bytes()) == (again.name, again.read_bytes())
    others = [
        quantised_model(fp32, X[:1], Recipe(), tmp_path / "a"),
        quantised_model(fp32, X, Recipe(reduce_range=True), tmp_path / "a"),
        quantised_model(fp32, X, Recipe(operators=("MatMul",)), tmp_path / "a"),
    ]
    assert len({first.name, *(path.name for path in others)}) == 4
    assert not list((tmp_path / "a").glob(".quantise-*"))


def test_what_cannot_be_quantised_is_said_and_leaves_no_file(fp32: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"m\.onnx cannot be quantised: "):
        quantised_model(fp32, [{"z": np.zeros(3, np.float32)}], Recipe(), tmp_path / "q")
    assert not list((tmp_path / "q").iterdir())
