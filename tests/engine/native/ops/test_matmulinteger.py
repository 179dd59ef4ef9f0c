import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models.export import export_refrt
from tests.engine.native.ops.codes import FEW, codes, products, seeds, types


@FEW
@given(products(), types, types, seeds, st.booleans())
def test_against_the_definition(check_op, shapes, left, right, seed, constant):
    zeros = {"c": codes(seed + 2, left).reshape(()), "d": codes(seed + 3, right).reshape(())}
    a, b = {"a": codes(seed, left, *shapes[0])}, {"b": codes(seed + 1, right, *shapes[1])}
    check_op("MatMulInteger", a if constant else a | b, (b if constant else {}) | zeros)


def test_sums_that_saturate_8_bit_kernels_are_exact(check_op):
    """The 64 products of 255 × 127 that ONNX Runtime's kernel of a CPU without VNNI sums to 1,048,544."""
    full = {"a": np.full((1, 64), 255, np.uint8), "b": np.full((64, 1), 127, np.int8)}
    assert check_op("MatMulInteger", full).tolist() == [[2_072_640]]


def test_a_sum_never_wraps(refrt, one_node, check_op):
    """33,025 products of the extremes are the last that int32 holds; of one more the operator knows nothing."""
    ends = {"a": np.full((1, 33025), 255, np.uint8), "b": np.full((33025, 1), -128, np.int8)}
    zeros = {"c": np.uint8(0), "d": np.int8(127)}
    assert check_op("MatMulInteger", ends, zeros).tolist() == [[-(33025 * 255 * 255)]]
    longer = {name: np.concatenate([array, array[:1]], axis=0) for name, array in ends.items() if name == "b"}
    longer["a"] = np.full((1, 33026), 255, np.uint8)
    export_refrt(one_node("MatMulInteger", longer, zeros), {}, refrt.folder / "m.refrt")
    with pytest.raises(AssertionError, match="sums of more products than int32 holds"):
        refrt.run(refrt.folder / "m.refrt", longer)


def test_a_zero_point_for_each_row_and_column(refrt, one_node):
    a, b = codes(1, np.uint8, 2, 5, 7), codes(2, np.int8, 7, 3)
    rows, columns = codes(3, np.uint8, 5), codes(4, np.int8, 3)
    for given_rows in (rows, rows.reshape(5, 1)):
        model = one_node("MatMulInteger", {"a": a}, {"b": b, "c": given_rows, "d": columns})
        export_refrt(model, {}, refrt.folder / "m.refrt")
        got = refrt.run(refrt.folder / "m.refrt", {"a": a}).output("y")
        want = (a.astype(np.int64) - rows.reshape(5, 1)) @ (b.astype(np.int64) - columns)
        np.testing.assert_array_equal(got, want)


def test_zero_points_that_are_computed(check_op):
    feeds = {"a": codes(1, np.uint8, 9, 17), "b": codes(2, np.uint8, 17, 18), "c": np.uint8(200), "d": np.uint8(3)}
    check_op("MatMulInteger", {name: np.asarray(value) for name, value in feeds.items()})


def test_bits_do_not_depend_on_threads(refrt, one_node):
    feeds = {"a": codes(1, np.int8, 3, 70, 33), "b": codes(2, np.int8, 3, 33, 90)}
    export_refrt(one_node("MatMulInteger", feeds), {}, refrt.folder / "m.refrt")
    one, four = (refrt.run(refrt.folder / "m.refrt", feeds, threads=count).output("y") for count in (1, 4))
    np.testing.assert_array_equal(one, four)


def test_zero_points_for_each_matrix_are_unsupported(refrt, one_node):
    feeds = {"a": codes(1, np.uint8, 2, 3, 4), "b": codes(2, np.uint8, 4, 5)}
    model = one_node("MatMulInteger", feeds, {"c": np.zeros((2, 3, 1), np.uint8)})
    export_refrt(model, {}, refrt.folder / "m.refrt")
    with pytest.raises(AssertionError, match=r"zero points of shape \[2,3,1\]; known: one, or one a line"):
        refrt.run(refrt.folder / "m.refrt", feeds)
