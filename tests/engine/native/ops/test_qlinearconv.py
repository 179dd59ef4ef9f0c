import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from engine.models.export import export_refrt
from tests.engine.native.ops.codeconv import GEOMETRIES, convolutions
from tests.engine.native.ops.codes import FEW, beside_halves, codes, scales, seeds, types

ONE = np.float32(1)


def run(refrt, model, feeds):
    export_refrt(model, {}, refrt.folder / "m.refrt")
    return refrt.run(refrt.folder / "m.refrt", feeds).output("y")


def check(refrt, one_node, feeds, constants, attributes):
    """The same codes as the evaluator's, but where ONNX's text rounds otherwise."""
    model = one_node("QLinearConv", feeds, constants, **attributes)
    got = run(refrt, model, feeds)
    (want,) = ReferenceEvaluator(model).run(None, feeds)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    sums = {"a": feeds["a"], "b": constants["d"], "c": constants["c"], "d": constants["f"]}
    integer = one_node("ConvInteger", {"a": sums.pop("a")}, sums, **attributes)
    (real,) = ReferenceEvaluator(integer).run(None, feeds)
    wide = (1, -1, *(1,) * (real.ndim - 2))
    real = real + np.reshape(constants.get("i", 0), wide)
    real = real * np.reshape(constants["b"] * constants["e"] / constants["g"], wide).astype(np.float64)
    alike = beside_halves(real, int(constants["h"]))
    np.testing.assert_array_equal(got[alike], want[alike])


@pytest.mark.parametrize(("x", "w", "attributes"), GEOMETRIES)
def test_geometries(refrt, one_node, x, w, attributes):
    constants = {"b": np.float32(0.02), "c": np.uint8(13), "d": codes(2, np.int8, *w), "e": np.float32(0.011)}
    constants |= {"f": np.int8(-5), "g": np.float32(0.3), "h": np.uint8(100)}
    check(refrt, one_node, {"a": codes(1, np.uint8, *x)}, constants, attributes)


@FEW
@given(convolutions(), st.tuples(types, types, types), st.tuples(scales, scales, scales), seeds, st.booleans())
def test_against_the_definition(refrt, one_node, geometry, dtypes, steps, seed, per_channel):
    """Scales and zero points for each output channel, a bias, and any mix of uint8 and int8."""
    (x, w, attributes), (of_x, of_w, of_y) = geometry, steps
    zx, zw, zy = (codes(seed + 3 + at, dtype).reshape(()) for at, dtype in enumerate(dtypes))
    if per_channel:
        of_w = (of_w * np.linspace(0.5, 1, w[0])).astype(np.float32)
        zw = codes(seed + 7, dtypes[1], w[0])
    of_y = np.float32(of_y * 255 * np.prod(w[1:]))
    constants = {"b": of_x, "c": zx, "d": codes(seed + 1, dtypes[1], *w), "e": of_w, "f": zw, "g": of_y, "h": zy}
    if seed % 2:
        constants["i"] = np.random.default_rng(seed).integers(-9000, 9000, size=w[0], dtype=np.int32)
    check(refrt, one_node, {"a": codes(seed, dtypes[0], *x)}, constants, attributes)


def test_halves_go_to_even_before_the_zero_point_is_added(refrt, one_node):
    """As ONNX's text and ONNX Runtime say; its reference evaluator adds first and gives 2, 2, 4."""
    feeds = {"a": np.array([1, 3, 5], np.uint8).reshape(1, 1, 3, 1)}
    constants = {"b": np.float32(0.5), "c": np.uint8(0), "d": np.ones((1, 1, 1, 1), np.uint8), "e": ONE}
    constants |= {"f": np.uint8(0), "g": ONE, "h": np.uint8(1)}
    assert run(refrt, one_node("QLinearConv", feeds, constants), feeds).ravel().tolist() == [1, 3, 3]


def test_a_bias_at_the_ends_of_int32_does_not_wrap(refrt, one_node):
    feeds = {"a": np.full((1, 1, 1, 1), 255, np.uint8)}
    ends = np.array([2**31 - 1, -(2**31)], np.int32)
    constants = {"b": ONE, "c": np.uint8(0), "d": np.array([127, -128], np.int8).reshape(2, 1, 1, 1), "e": ONE}
    constants |= {"f": np.int8(0), "g": np.float32(2**24), "h": np.int8(0), "i": ends}
    assert run(refrt, one_node("QLinearConv", feeds, constants), feeds).ravel().tolist() == [127, -128]


def test_a_scale_for_each_channel_of_a_one_dimensional_convolution(refrt, one_node):
    """The evaluator broadcasts these along the wrong dimension."""
    feeds, w = {"a": codes(1, np.uint8, 1, 2, 9)}, codes(2, np.int8, 3, 2, 1)
    of_w, zw = np.array([0.5, 0.25, 1.0], np.float32), np.array([1, -2, 3], np.int8)
    constants = {"b": ONE, "c": np.uint8(3), "d": w, "e": of_w, "f": zw, "g": np.float32(300), "h": np.uint8(128)}
    got = run(refrt, one_node("QLinearConv", feeds, constants), feeds)
    sums = (w[:, :, 0].astype(np.int64) - zw[:, None]) @ (feeds["a"][0].astype(np.int64) - 3)
    want = np.clip(np.rint(sums * (of_w / np.float32(300)).astype(np.float64)[:, None]) + 128, 0, 255)
    np.testing.assert_array_equal(got[0], want)


def test_more_than_one_scale_of_the_input_is_unsupported(refrt, one_node):
    feeds = {"a": codes(1, np.uint8, 1, 2, 3, 3)}
    constants = {"b": np.ones(2, np.float32), "c": np.uint8(0), "d": codes(2, np.int8, 1, 2, 1, 1), "e": ONE}
    model = one_node("QLinearConv", feeds, constants | {"f": np.int8(0), "g": ONE, "h": np.uint8(0)})
    export_refrt(model, {}, refrt.folder / "m.refrt")
    with pytest.raises(AssertionError, match="more than one scale or zero point of the input or the output"):
        refrt.run(refrt.folder / "m.refrt", feeds)
