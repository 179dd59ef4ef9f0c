import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from engine.models.export import export_refrt
from tests.engine.native.ops.codes import FEW, beside_halves, codes, products, scales, seeds, types

ONE = np.float32(1)


def run(refrt, model, feeds):
    export_refrt(model, {}, refrt.folder / "m.refrt")
    return refrt.run(refrt.folder / "m.refrt", feeds).output("y")


@FEW
@given(products(), st.tuples(types, types, types), st.tuples(scales, scales, scales), seeds, st.booleans())
def test_against_the_definition(refrt, one_node, shapes, dtypes, steps, seed, per_column):
    (left, right, _), (of_a, of_b, of_y) = dtypes, steps
    feeds = {"a": codes(seed, left, *shapes[0])}
    b = codes(seed + 1, right, *shapes[1])
    za, zb, zy = (codes(seed + 2 + at, dtype).reshape(()) for at, dtype in enumerate(dtypes))
    if per_column:
        of_b = (of_b * np.linspace(0.5, 1, b.shape[-1])).astype(np.float32)
        zb = codes(seed + 5, right, b.shape[-1])
    of_y = np.float32(of_y * 255 * (shapes[0][-1] + 1))
    constants = {"b": of_a, "c": za, "d": b, "e": of_b, "f": zb, "g": of_y, "h": zy}
    model = one_node("QLinearMatMul", feeds, constants)
    got = run(refrt, model, feeds)
    (want,) = ReferenceEvaluator(model).run(None, feeds)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    real = (feeds["a"].astype(np.float64) - za) @ (b.astype(np.float64) - zb) * (of_a * of_b / of_y)
    alike = beside_halves(real, int(zy))
    np.testing.assert_array_equal(got[alike], want[alike])


def test_halves_go_to_even_before_the_zero_point_is_added(refrt, one_node):
    """As ONNX's text and ONNX Runtime say; its reference evaluator adds first and gives 2, 2, 4."""
    feeds = {"a": np.array([[1], [3], [5]], np.uint8)}
    constants = {"b": np.float32(0.5), "c": np.uint8(0), "d": np.ones((1, 1), np.uint8), "e": ONE, "f": np.uint8(0)}
    odd = one_node("QLinearMatMul", feeds, constants | {"g": ONE, "h": np.uint8(1)})
    assert run(refrt, odd, feeds).tolist() == [[1], [3], [3]]


def test_what_no_code_holds_saturates(refrt, one_node):
    feeds = {"a": np.array([[255], [0]], np.uint8)}
    constants = {"b": ONE, "c": np.uint8(128), "d": np.full((1, 1), 127, np.int8), "e": ONE, "f": np.int8(-128)}
    for zero, ends in ((np.uint8(7), [[255], [0]]), (np.int8(7), [[127], [-128]])):
        model = one_node("QLinearMatMul", feeds, constants | {"g": np.float32(1e-3), "h": zero})
        assert run(refrt, model, feeds).tolist() == ends


def test_a_long_sum_does_not_wrap(refrt, one_node):
    """70,000 products of the extremes are beyond int32; scaled back they are a code."""
    depth = 70_000
    feeds = {"a": np.full((1, depth), 255, np.uint8)}
    constants = {"b": ONE, "c": np.uint8(0), "d": np.full((depth, 1), 255, np.uint8), "e": ONE, "f": np.uint8(0)}
    model = one_node("QLinearMatMul", feeds, constants | {"g": np.float32(255 * depth), "h": np.uint8(0)})
    assert run(refrt, model, feeds).tolist() == [[255]]


def test_scales_for_each_row(refrt, one_node):
    a, b = codes(1, np.int8, 2, 3, 8), codes(2, np.int8, 8, 5)
    of_a, of_y = np.array([[0.5], [0.25], [1.0]], np.float32), np.array([[30.0], [40.0], [90.0]], np.float32)
    zero = np.array([[1], [-2], [3]], np.int8)
    constants = {"b": of_a, "c": np.int8(3), "d": b, "e": ONE, "f": np.int8(0), "g": of_y, "h": zero}
    got = run(refrt, one_node("QLinearMatMul", {"a": a}, constants), {"a": a})
    sums = (a.astype(np.int64) - 3) @ b.astype(np.int64)
    want = np.clip(np.rint(sums * (of_a / of_y).astype(np.float64)) + zero, -128, 127)
    np.testing.assert_array_equal(got, want)


def test_a_scale_of_zero_divides_nothing_by_itself(refrt, one_node):
    feeds = {"a": np.array([[9], [3], [1]], np.uint8)}
    constants = {"b": ONE, "c": np.uint8(3), "d": np.ones((1, 1), np.uint8), "e": ONE, "f": np.uint8(0)}
    model = one_node("QLinearMatMul", feeds, constants | {"g": np.float32(0), "h": np.uint8(7)})
    assert run(refrt, model, feeds).tolist() == [[255], [7], [0]]
