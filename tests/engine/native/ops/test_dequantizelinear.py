import numpy as np
import pytest

from engine.models.export import export_refrt
from engine.models.shapes import make_static


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("shape", [(1,), (127,), (2, 3, 5, 4), (0, 4)])
def test_shapes_and_types(check_op, dtype, shape):
    info = np.iinfo(dtype)
    values = np.random.default_rng(3).integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)
    zero = np.array(0 if dtype == np.int32 else 7, dtype=dtype)
    check_op("DequantizeLinear", {"a": values}, {"b": np.float32(0.037), "c": zero}, ulp=1, opset=19)


def test_the_difference_does_not_wrap(check_op):
    ends = np.array([-128, 127], dtype=np.int8)
    got = check_op("DequantizeLinear", {"a": ends}, {"b": np.float32(1), "c": np.int8(-128)}, opset=19)
    assert got.tolist() == [0.0, 255.0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_channel(check_op, axis):
    data = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    count = data.shape[axis]
    steps = np.linspace(0.01, 0.2, count, dtype=np.float32)
    check_op(
        "DequantizeLinear", {"a": data}, {"b": steps, "c": np.arange(count, dtype=np.uint8)}, axis=axis, ulp=1, opset=19
    )


def test_quantised_codes_come_back_exactly(check_op):
    """Case A23: code 31 with an int8 zero point of -16 is 54.5985, and 36.0118 without it."""
    code, scale = np.array([31], dtype=np.int8), np.float32(1.161671)
    assert check_op("DequantizeLinear", {"a": code}, {"b": scale, "c": np.int8(-16)}, opset=19)[0] == pytest.approx(
        54.5985, abs=1e-4
    )
    assert check_op("DequantizeLinear", {"a": code}, {"b": scale, "c": np.int8(0)}, opset=19)[0] == pytest.approx(
        36.0118, abs=1e-4
    )


def test_a_model_of_an_older_operator_set_means_the_same(refrt, one_node):
    codes = np.arange(256, dtype=np.uint8)
    for opset in (13, 19):
        model = one_node("DequantizeLinear", {"a": codes}, {"b": np.float32(0.5), "c": np.uint8(3)}, opset=opset)
        export_refrt(model, {}, refrt.folder / "m.refrt")
        got = refrt.run(refrt.folder / "m.refrt", {"a": codes}).output("y")
        assert np.array_equal(got, (codes.astype(np.float32) - 3) * np.float32(0.5))


def test_constant_weights_are_dequantised_at_export(one_node):
    codes = np.arange(-4, 4, dtype=np.int8).reshape(2, 4)
    model = one_node("DequantizeLinear", {}, {"a": codes, "b": np.float32(0.5), "c": np.int8(1)}, opset=13)
    assert make_static(model, {}).constants["y"].tolist() == ((codes - 1) * 0.5).tolist()
