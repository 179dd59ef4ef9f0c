import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from engine.models.export import export_refrt


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((1, 512), (512, 4)),
        ((7, 127), (127, 17)),
        ((2, 3, 5), (5, 6)),
        ((2, 3, 5), (2, 5, 6)),
        ((4, 1, 3, 5), (2, 5, 3)),
        ((5,), (5, 3)),
        ((3, 5), (5,)),
        ((5,), (5,)),
        ((3, 0), (0, 2)),
        ((0, 4), (4, 2)),
    ],
)
@pytest.mark.parametrize("constant", [False, True])
def test_against_the_definition(refrt, one_node, noise, a, b, constant):
    left, right = noise(*a), noise(*b)
    feeds = {"a": left} if constant else {"a": left, "b": right}
    model = one_node("MatMul", feeds, {"b": right} if constant else {})
    export_refrt(model, {}, refrt.folder / "model.refrt")
    got = refrt.run(refrt.folder / "model.refrt", feeds).output("y")
    (want,) = ReferenceEvaluator(model).run(None, feeds)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)


def test_the_sum_starts_from_zero_and_ascends(refrt, one_node):
    """2^25 absorbs each one that follows it; the ones before it still count together."""
    left = np.array([[1.0, 1.0, 2.0**25, 1.0, 1.0, -(2.0**25)]], dtype=np.float32)
    right = np.ones((6, 1), dtype=np.float32)
    export_refrt(one_node("MatMul", {"a": left}, {"b": right}), {}, refrt.folder / "model.refrt")
    assert refrt.run(refrt.folder / "model.refrt", {"a": left}).output("y").tolist() == [[0.0]]
    turned = np.ascontiguousarray(left[:, [2, 5, 0, 1, 3, 4]])
    assert refrt.run(refrt.folder / "model.refrt", {"a": turned}).output("y").tolist() == [[4.0]]


def test_special_values(refrt, one_node, special):
    left = special[None, :].repeat(3, axis=0)
    right = np.eye(special.size, dtype=np.float32)
    export_refrt(one_node("MatMul", {"a": left, "b": right}), {}, refrt.folder / "model.refrt")
    got = refrt.run(refrt.folder / "model.refrt", {"a": left, "b": right}).output("y")
    assert np.isnan(got).all()  # every row holds NaN and infinities, which zeros do not hide
