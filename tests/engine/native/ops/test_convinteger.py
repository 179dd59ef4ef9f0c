import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.export import export_refrt
from tests.engine.native.ops.codeconv import GEOMETRIES, convolutions
from tests.engine.native.ops.codes import FEW, codes, seeds, types


@pytest.mark.parametrize(("x", "w", "attributes"), GEOMETRIES)
def test_geometries(check_op, x, w, attributes):
    feeds, constants = {"a": codes(1, np.uint8, *x)}, {"b": codes(2, np.int8, *w)}
    check_op("ConvInteger", feeds, constants | {"c": np.uint8(13), "d": np.int8(-5)}, **attributes)


@FEW
@given(convolutions(), types, types, seeds, st.booleans(), st.booleans())
def test_against_the_definition(check_op, geometry, left, right, seed, constant, per_channel):
    """The zero point of the input fills the padding."""
    x, w, attributes = geometry
    zeros = {"c": codes(seed + 2, left).reshape(()), "d": codes(seed + 3, right, *w[:1])}
    zeros["d"] = zeros["d"] if per_channel else zeros["d"][0].reshape(())
    a, b = {"a": codes(seed, left, *x)}, {"b": codes(seed + 1, right, *w)}
    check_op("ConvInteger", a if constant else a | b, (b if constant else {}) | zeros, **attributes)


def test_without_zero_points_they_are_zero(check_op):
    check_op("ConvInteger", {"a": codes(1, np.uint8, 1, 2, 5, 5)}, {"b": codes(2, np.int8, 3, 2, 3, 3)})


def test_a_sum_never_wraps(refrt, one_node, check_op):
    """33,025 products of the extremes are the last that int32 holds; of one more the operator knows nothing."""
    x, w = {"a": np.full((1, 33025, 1, 1), 255, np.uint8)}, {"b": np.full((1, 33025, 1, 1), -128, np.int8)}
    zeros = {"c": np.uint8(0), "d": np.int8(127)}
    assert check_op("ConvInteger", x, w | zeros).item() == -(33025 * 255 * 255)
    more = {"a": np.full((1, 33026, 1, 1), 255, np.uint8)}
    model = one_node("ConvInteger", more, {"b": np.full((1, 33026, 1, 1), -128, np.int8)} | zeros)
    export_refrt(model, {}, refrt.folder / "m.refrt")
    with pytest.raises(AssertionError, match="sums of more products than int32 holds"):
        refrt.run(refrt.folder / "m.refrt", more)


def test_bits_do_not_depend_on_threads(refrt, one_node):
    feeds = {"a": codes(1, np.uint8, 2, 6, 19, 23)}
    model = one_node("ConvInteger", feeds, {"b": codes(2, np.int8, 8, 3, 3, 3)}, group=2)
    export_refrt(model, {}, refrt.folder / "m.refrt")
    one, four = (refrt.run(refrt.folder / "m.refrt", feeds, threads=count).output("y") for count in (1, 4))
    np.testing.assert_array_equal(one, four)


def test_weights_and_bounds_that_contradict_each_other_are_refused(refrt, one_node):
    feeds = {"a": codes(1, np.uint8, 1, 2, 5, 5)}
    constants = {"b": codes(2, np.int8, 4, 2, 3, 3), "c": np.uint8(0), "d": np.zeros(3, np.int8)}
    export_refrt(one_node("ConvInteger", feeds, constants), {}, refrt.folder / "m.refrt")
    with pytest.raises(AssertionError, match=r"zero points of shape \[3\]; known: one, or one a line"):
        refrt.run(refrt.folder / "m.refrt", feeds)
