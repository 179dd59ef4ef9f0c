"""Rounding to 16 bits, as storage of weights and layers does it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ci.learning.precisions import ROUND, Stored

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}
HALF = {"fp16": 2.0**-11, "bf16": 2.0**-8}


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=40), st.sampled_from(["fp16", "bf16"]))
def test_weights_are_rounded_to_nearest_ties_to_even(values: list[float], precision: str) -> None:
    array = np.array(values, dtype=np.float32)
    with np.errstate(over="ignore"):
        wanted = array.astype(TYPES[precision]).astype(np.float32)
    assert ROUND[precision](array).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize(("odd", "even"), [(1, 0), (3, 4)])
def test_a_tie_goes_to_the_even_neighbour_in_weights_and_in_layers(precision: str, odd: int, even: int) -> None:
    tie = np.float32(1 + odd * HALF[precision])
    assert ROUND[precision](np.array([tie]))[0] == np.float32(1 + even * HALF[precision])
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, (1,))], [value("y", TensorProto.FLOAT, (1,))]
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "one"], ["y"])], "tie", *ends, [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    got = Stored("all", precision).run(model, {"x": np.array([tie])})
    assert got["y"][0] == np.float32(1 + even * HALF[precision])
