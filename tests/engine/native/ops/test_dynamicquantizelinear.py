import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from engine.models.export import export_refrt
from tests.engine.native.ops.codes import FEW, seeds

ENDS = ("y", "scale", "zero")


def run(refrt, one_node, x):
    """Codes, scale and zero point, and the model they are from."""
    model = one_node("DynamicQuantizeLinear", {"a": x}, outputs=ENDS)
    export_refrt(model, {}, refrt.folder / "m.refrt")
    answer = refrt.run(refrt.folder / "m.refrt", {"a": x}, threads=2)
    return [answer.output(name) for name in ENDS], model


@FEW
@given(
    st.lists(st.integers(1, 9), max_size=4),
    st.floats(-3, 3, width=32),
    st.floats(2**-20, 2.0**20, width=32),
    seeds,
)
def test_against_the_definition(refrt, one_node, shape, shift, size, seed):
    """Ranges to one side of zero are widened to it."""
    noise = np.random.default_rng(seed).standard_normal(shape) + shift
    x = np.asarray(noise * size, dtype=np.float32)
    got, model = run(refrt, one_node, x)
    for ours, theirs in zip(got, ReferenceEvaluator(model).run(None, {"a": x}), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours, theirs)


def test_a_tensor_of_zeros_has_the_scale_one(refrt, one_node):
    (codes, scale, zero), _ = run(refrt, one_node, np.zeros((2, 3), np.float32))
    assert (codes.tolist(), float(scale), int(zero)) == ([[0, 0, 0], [0, 0, 0]], 1.0, 0)


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1.0, np.nan, -2.0], np.nan), ([1.0, np.inf, -2.0], np.inf), ([-np.inf, 5.0], np.inf), ([3e38, -3e38], np.inf)],
)
def test_what_is_not_finite_shows_in_the_scale(refrt, one_node, values, scale):
    (codes, found, zero), _ = run(refrt, one_node, np.array(values, np.float32))
    np.testing.assert_array_equal(found, np.float32(scale))
    assert (set(codes.tolist()), int(zero)) == ({0}, 0)


def test_subnormal_ranges_stay_in_range(refrt, one_node):
    (codes, scale, zero), _ = run(refrt, one_node, np.array([1e-45, 0.0, -1e-45], np.float32))
    assert (float(scale), int(zero), codes.tolist()) == (0.0, 255, [255, 0, 0])
