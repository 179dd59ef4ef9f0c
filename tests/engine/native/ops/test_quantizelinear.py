import numpy as np
import pytest

from engine.contract.errors import UnsupportedError
from engine.models.export import export_refrt


def scale(*values):
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(1,), (127,), (2, 3, 5, 4), (1, 128, 124), (0, 4)])
def test_shapes_and_types(check_op, noise, shape, dtype):
    zero = np.array(7, dtype=dtype)
    check_op("QuantizeLinear", {"a": noise(*shape)}, {"b": np.float32(0.05), "c": zero})


def test_halves_go_to_even(check_op):
    values = scale(0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5)
    got = check_op("QuantizeLinear", {"a": values}, {"b": np.float32(1), "c": np.int8(0)})
    assert got.tolist() == [0, 2, 2, 0, -2, 126, 127]


def test_what_no_integer_holds_saturates_and_a_nan_becomes_the_zero_point(refrt, one_node):
    values = scale(1e30, -1e30, np.inf, -np.inf, np.nan)
    model = one_node("QuantizeLinear", {"a": values}, {"b": np.float32(1), "c": np.int8(9)})
    export_refrt(model, {}, refrt.folder / "m.refrt")
    got = refrt.run(refrt.folder / "m.refrt", {"a": values}).output("y")
    assert got.tolist() == [127, -128, 127, -128, 9]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_channel(check_op, noise, axis):
    data = noise(3, 4, 5)
    count = data.shape[axis]
    steps = np.linspace(0.01, 0.2, count, dtype=np.float32)
    check_op("QuantizeLinear", {"a": data}, {"b": steps, "c": np.arange(count, dtype=np.uint8)}, axis=axis)


def test_without_a_zero_point_it_is_zero(check_op, noise):
    check_op("QuantizeLinear", {"a": noise(6)}, {"b": np.float32(0.1)})


def test_a_type_that_is_not_known_is_unsupported(refrt, one_node, noise):
    model = one_node("QuantizeLinear", {"a": noise(4)}, {"b": np.float32(1), "c": np.int16(0)}, opset=21)
    export_refrt(model, {}, refrt.folder / "m.refrt")
    with pytest.raises(AssertionError, match="quantises to int16; known: uint8, int8"):
        refrt.run(refrt.folder / "m.refrt", {"a": noise(4)})


def test_blocks_are_unsupported(refrt, one_node, noise):
    blocks = {"b": np.ones((2, 2), np.float32), "c": np.zeros((2, 2), np.uint8)}
    model = one_node("QuantizeLinear", {"a": noise(2, 4)}, blocks, opset=21, block_size=2, axis=1)
    with pytest.raises(UnsupportedError, match="blocks and wrapping around are not supported"):
        export_refrt(model, {}, refrt.folder / "m.refrt")
