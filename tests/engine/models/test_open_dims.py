from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from engine.contract.errors import ModelError
from engine.models.shapes import make_static


def model(shape: list[int | str]) -> object:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", ends[:1], ends[1:])
    return helper.make_model(graph)


def test_an_exporter_s_minus_one_is_an_open_dimension() -> None:
    assert make_static(model([-1, 3, "n"]), {"x": (2, 3, 5)}).types["y"].shape == (2, 3, 5)
    with pytest.raises(ModelError, match=r"is declared \[None, 3, None\], the case feeds \[2, 4, 5\]"):
        make_static(model([-1, 3, "n"]), {"x": (2, 4, 5)})
