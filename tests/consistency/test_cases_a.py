"""Group A of the acceptance cases, judged from two arrays as ``lockstep compare`` does."""

import math
from dataclasses import replace

import numpy as np
import pytest

from consistency.tensors import Quantisation, Tensor, compare_tensors, dequantise, localise_tensors
from consistency.thresholds import FloatRule, IntegerRule, Profile, profile

FP32 = profile("fp32")


def tensor(values, name="y", **changes):
    array = np.asarray(values)
    return replace(Tensor(name, array.dtype.name, array.shape, array), **changes)


def f32(values, **changes):
    return tensor(np.asarray(values, dtype=np.float32), **changes)


def absolute(atol):
    rule = FloatRule(atol=atol, rtol=0.0, rounding=0.0, min_cosine=-1.0, max_norm_drift=1e9)
    return Profile("fp32", rule)


def test_a1_a_pooling_layer_beyond_fp16_is_first_and_later_layers_inherit():
    ones = tensor(np.ones((1, 1, 232, 304), np.float16), "x")
    one, nan = np.ones((1, 1, 1, 1), np.float16), np.full((1, 1, 1, 1), np.nan, np.float16)
    verdicts = [compare_tensors(ones, ones, profile("fp16"))]
    for name, op, source in (("gap", "GlobalAveragePool", "x"), ("fc", "Gemm", "gap"), ("prob", "Softmax", "fc")):
        shown = {"op": op, "inputs": (source,)}
        verdicts.append(compare_tensors(tensor(one, name, **shown), tensor(nan, name), profile("fp16")))
    _, gap, fc, prob = localise_tensors(verdicts, "fp16")
    assert (gap.status, gap.metric, gap.introduced) == ("fail", "nonfinite", True)
    assert "1 NaN of 1 elements" in gap.reason
    assert "fp16 range: 70528 elements are summed and FP16 ends at 65504" in gap.reason
    assert (gap.metrics["max_abs"], gap.metrics["nan"]) == (None, 1)
    for later in (fc, prob):
        assert later.status == "fail"
        assert later.introduced is False
        assert "inherited" in later.reason


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a5_int8_counts_decide_and_are_shown(dtype):
    ref = np.random.default_rng(5).integers(1, 100, 51200).astype(dtype)
    got = ref.copy()
    got[::640] += 1
    for share, status in ((0.01, "pass"), (0.001, "fail")):
        rules = Profile("int8", FP32.floats, integers={ref.dtype.name: IntegerRule(1, share)})
        verdict = compare_tensors(tensor(ref), tensor(got), rules)
        assert verdict.status == status
        assert (verdict.metrics["max_abs"], verdict.metrics["differing"]) == (1.0, 80)
        assert "80 of 51200 elements differ (0.1562 %" in verdict.reason
        assert "by at most 1" in verdict.reason


def test_a5_one_element_of_two_lsb_fails_whatever_the_share():
    ref = np.arange(100, dtype=np.int8)
    got = ref.copy()
    got[7] += 2
    verdict = compare_tensors(tensor(ref), tensor(got), profile("int8"))
    assert verdict.status == "fail"
    assert "1 of 100 elements differ (1 %, bound 1 %), by at most 2 at index 7 [7]" in verdict.reason


def test_a6_infinities_of_a_log_softmax_fail_although_the_top_agrees():
    ref = f32([-50, -50, -50, 0, -50, -50, -50, -50])
    got = f32(np.where(ref.values == 0, 0, -np.inf))
    verdict = compare_tensors(ref, got, FP32)
    assert verdict.status == "fail"
    assert (verdict.metrics["nan"], verdict.metrics["neg_inf"], verdict.metrics["pos_inf"]) == (0, 7, 0)
    assert "7 -Inf of 8 elements where the reference has no non-finite value; first unlike at index 0" in verdict.reason


def test_a6_softplus_fails_at_twelve_and_the_range_of_its_input_is_told():
    inputs = f32([10, 12], name="x")
    ref = f32([10.0000454, 12.0000061], op="Softplus", inputs=("x",))
    judged = compare_tensors(ref, f32([10.0, 0.0]), FP32)
    verdict = localise_tensors([compare_tensors(inputs, inputs, FP32), judged], "fp32")[1]
    assert verdict.status == "fail"
    assert verdict.metrics["worst_index"] == 1
    assert "inputs seen: `x` in [10, 12]" in verdict.reason


def resized(shift, scale):
    """[[5, 1], [1, 5]] to 10x10: sample position ``scale * (i + shift) - shift`` on each axis."""
    at = np.clip([scale * (i + shift) - shift for i in range(10)], 0, 1)
    image = np.array([[5.0, 1.0], [1.0, 5.0]])
    rows = np.outer(1 - at, image[0]) + np.outer(at, image[1])
    return rows[:, :1] * (1 - at) + rows[:, 1:] * at


@pytest.mark.parametrize(
    ("got", "ref", "largest", "mean", "cosine"),
    [
        ((0.0, 0.2), (0.5, 0.2), 1.92, 0.9984, 0.94381),
        ((0.5, 0.2), (0.0, 1 / 9), 1.38272, None, 0.98099),
    ],
)
def test_a8_resize_modes_differ(got, ref, largest, mean, cosine):
    verdict = compare_tensors(f32(resized(*ref)), f32(resized(*got)), FP32)
    assert verdict.status == "fail"
    assert verdict.metrics["max_abs"] == pytest.approx(largest, abs=1e-5)
    assert verdict.metrics["cosine"] == pytest.approx(cosine, abs=1e-5)
    if mean:
        assert verdict.metrics["mean_abs"] == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (1, 3, 4, 2), (24,)])
def test_a10_an_undeclared_layout_fails_with_a_hint(shape):
    ref = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    verdict = compare_tensors(f32(ref), f32(ref.transpose(0, 2, 3, 1).reshape(shape)), FP32)
    assert verdict.status == "fail"
    assert "22 of 24 elements differ" in verdict.reason
    assert "equal after NCHW-NHWC transpose" in verdict.reason


def test_a10_any_order_of_axes_is_recognised_and_noise_is_not():
    ref = np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32)
    turned = compare_tensors(f32(ref), f32(ref.transpose(2, 0, 1).reshape(3, 4, 5)), FP32)
    assert "equal after transpose of axes [2, 0, 1]" in turned.reason
    assert "transpose" not in compare_tensors(f32(ref), f32(-ref), FP32).reason


def test_a10_a_layout_has_to_hold_to_the_last_element():
    ref = np.random.default_rng(1).normal(size=(2, 50, 100)).astype(np.float32)
    stored = ref.transpose(0, 2, 1).reshape(2, 50, 100).copy()
    assert "equal after transpose of axes [0, 2, 1]" in compare_tensors(f32(ref), f32(stored), FP32).reason
    stored[1, 49, 99] += 1
    assert "transpose" not in compare_tensors(f32(ref), f32(stored), FP32).reason


def test_a11_swapped_colour_means_are_named_at_the_input():
    pixel = np.array([200, 100, 50], np.float32)
    means = np.array([123.68, 116.78, 103.94], np.float32)
    ref, got = f32(pixel - means, name="x"), f32(pixel - means[::-1])
    after = f32([1.0, 2.0], op="Conv", inputs=("x",), name="conv")
    verdicts = [compare_tensors(ref, got, FP32), compare_tensors(after, f32([1.5, 2.0]), FP32)]
    first, conv = localise_tensors(verdicts, "fp32")
    assert first.introduced is True
    assert "channel swap: constant differences of (+19.74, 0, -19.74)" in first.reason
    assert conv.introduced is False


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a11_a_swapped_image_is_named_whatever_its_axis(axis):
    image = np.moveaxis(np.random.default_rng(2).normal(size=(3, 7, 5)), 0, axis).astype(np.float32)
    verdict = compare_tensors(f32(image), f32(np.flip(image, axis)), FP32)
    assert verdict.status == "fail"
    assert "channel swap" in verdict.reason


def test_a11_offsets_that_do_not_mirror_are_no_channel_swap():
    image = np.random.default_rng(2).normal(size=(3, 7, 5)).astype(np.float32)
    offsets = np.array([1, 0, 1], np.float32).reshape(3, 1, 1)
    assert "channel swap" not in compare_tensors(f32(image), f32(image + offsets), FP32).reason


def test_a13_two_ulp_pass_and_a_bit_exact_rule_counts_them():
    ref, got = f32([-1.8208287954330444]), f32([-1.8208290338516235])
    loose = compare_tensors(ref, got, FP32)
    assert loose.status == "pass"
    assert loose.metrics["max_abs"] == pytest.approx(2.384e-7, rel=1e-3)
    exact = compare_tensors(ref, got, profile("bitexact"))
    assert exact.status == "fail"
    assert "the worst by 2 ULP (2.384e-07)" in exact.reason


@pytest.mark.parametrize("rest", [[], [1.0, 0.0]])
def test_a14_flushed_subnormals_pass_with_a_note(rest):
    verdict = compare_tensors(f32([1e-39, 2e-39, *rest]), f32([0.0, 0.0, *rest]), FP32)
    assert verdict.status == "pass"
    assert f"subnormal flush: 2 of {2 + len(rest)} elements" in verdict.reason


def test_a22_the_other_gelu_fails_at_1e_4_and_is_systematic_at_1e_3():
    x = np.linspace(-5, 5, 4001)
    exact = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    tanh = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    strict = compare_tensors(f32(tanh), f32(exact), absolute(1e-4))
    assert strict.status == "fail"
    assert strict.metrics["max_abs"] == pytest.approx(4.732e-4, rel=1e-3)
    assert abs(x[strict.metrics["worst_index"]]) == pytest.approx(2.70, abs=0.02)
    loose = compare_tensors(f32(tanh), f32(exact), absolute(1e-3))
    assert loose.status == "pass"
    assert "systematic, same sign pattern" in loose.reason
    assert compare_tensors(f32(tanh), f32(exact), FP32).status == "fail"


@pytest.mark.parametrize(
    ("dtype", "point", "ok"),
    [("uint8", -16, False), ("uint8", 256, False), ("uint8", 255, True), ("int8", -16, True), ("int4", 8, False)],
)
def test_a23_a_zero_point_outside_its_type_is_refused(dtype, point, ok):
    if ok:
        assert Quantisation((1.161671,), (point,), dtype).zero_point == (point,)
    else:
        with pytest.raises(ValueError, match=f"zero point {point} is outside the range of {dtype}"):
            Quantisation((1.161671,), (point,), dtype)


@pytest.mark.parametrize("codes", [[31], [31, -5, 100, -16]])
def test_a23_a_forgotten_zero_point_is_named(codes):
    held = tensor(np.array(codes, np.int8))
    right = replace(held, quantisation=Quantisation((1.161671,), (-16,), "int8"))
    wrong = replace(held, quantisation=Quantisation((1.161671,), (0,), "int8"))
    assert dequantise(right).values[0] == pytest.approx(54.5985, abs=1e-4)
    assert dequantise(wrong).values[0] == pytest.approx(36.0118, abs=1e-4)
    for got in (wrong, dequantise(wrong)):
        verdict = compare_tensors(right, got, FP32)
        assert verdict.status == "fail"
        assert "zero-point error: constant offset of 18.5867, 16 steps of scale 1.161671" in verdict.reason


def test_a23_quantisation_of_each_channel_is_applied_along_its_axis():
    codes = tensor(np.array([[1, 2], [3, 4]], np.int8))
    rule = Quantisation((0.5, 2.0), (0, 1), "int8", axis=1)
    assert dequantise(replace(codes, quantisation=rule)).values.tolist() == [[0.5, 2.0], [1.5, 6.0]]
    misfit = replace(codes, quantisation=Quantisation((1.0, 1.0, 1.0), (0, 0, 0), "int8", axis=1))
    verdict = compare_tensors(misfit, f32([[0, 0], [0, 0]]), FP32)
    assert verdict.status == "not_compared"
    assert "3 scales do not fit axis 1" in verdict.reason


def test_a24_a_constant_output_is_flagged_before_any_tolerance():
    ref = np.arange(1, 21, dtype=np.int64)
    wide = Profile("wide", FP32.floats, other_integers=IntegerRule(10, 1.0))
    for rules in (FP32, wide):
        verdict = compare_tensors(tensor(ref), tensor(np.zeros(20, np.int64)), rules)
        assert (verdict.status, verdict.metric) == ("fail", "constant")
        assert "constant output: all 20 elements are 0 where the reference varies" in verdict.reason
        assert "20 of 20 elements differ, first at index 0" in verdict.reason


def test_a24_a_softmax_of_zeros_is_constant_though_it_is_within_a_wide_tolerance():
    probabilities = np.random.default_rng(3).dirichlet(np.ones(1000))
    verdict = compare_tensors(f32(probabilities), f32(np.zeros(1000)), absolute(1e-3))
    assert verdict.metric == "constant"
