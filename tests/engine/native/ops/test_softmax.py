import numpy as np
import pytest
from onnx import TensorProto, helper

from engine.models.export import export_refrt


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(3, 127, 4), (1, 1, 128), (124, 2, 1)])
def test_axes(check_op, noise, shape, axis):
    got = check_op("Softmax", {"a": noise(*shape)}, ulp=64, axis=axis)
    np.testing.assert_allclose(got.sum(axis=axis), 1.0, atol=1e-6)


def test_large_inputs_do_not_overflow(check_op):
    got = check_op("Softmax", {"a": np.array([[1000.0, 1000.0, -1000.0]], dtype=np.float32)}, ulp=2)
    assert got.tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("position", [0, 2])
def test_poison_spoils_its_line_only(check_op, poison, position):
    values = np.ones((2, 4), dtype=np.float32)
    values[0, position] = poison
    got = check_op("Softmax", {"a": values}, ulp=2)
    assert np.isnan(got[0]).any()
    assert got[1].tolist() == [0.25] * 4


def test_empty(check_op, noise):
    check_op("Softmax", {"a": noise(0, 4)}, axis=-1)


def test_before_opset_13_the_rest_is_one_dimension(refrt, noise):
    values = noise(2, 3, 4)
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["a"], ["y"], axis=1)],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, values.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, values.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    export_refrt(model, {}, refrt.folder / "m.refrt")
    got = refrt.run(refrt.folder / "m.refrt", {"a": values}).output("y")
    np.testing.assert_allclose(got.sum(axis=(1, 2)), 1.0, rtol=1e-6)
