"""Group E of the acceptance cases, judged from two arrays as ``lockstep compare`` does."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from consistency.tensors import Tensor, compare_tensors
from consistency.thresholds import PROFILE_NAMES, FloatRule, Profile, profile

FP32 = profile("fp32")
STRICT = Profile("strict", FloatRule(0.0, 0.0, 0.0, 1.0, 0.0))


def tensor(values, dtype=None):
    array = np.asarray(values, dtype=dtype)
    name = "string" if array.dtype.kind in "UO" else array.dtype.name
    return Tensor("y", name, array.shape, array)


def test_e3_equal_zeros_pass_with_cosine_one():
    zeros = tensor([0, 0, 0, 0], np.float32)
    for rules in (FP32, STRICT):
        verdict = compare_tensors(zeros, zeros, rules)
        assert verdict.status == "pass"
        assert (verdict.metrics["scaled_rms"], verdict.metrics["cosine"]) == (0.0, 1.0)


def test_e3_a_value_against_zeros_fails_either_way_round():
    zeros, spike = tensor(np.zeros(4, np.float32)), tensor([0, 0, 0, 1e-3], np.float32)
    rules = Profile("atol", FloatRule(1e-4, 0.0, 0.0, -1.0, 1e9))
    assert compare_tensors(zeros, spike, rules).status == "fail"
    assert compare_tensors(spike, zeros, rules).status == "fail"


def test_e3_tiny_values_of_other_sign_fail_a_strict_rule():
    assert compare_tensors(tensor([1e-8], np.float32), tensor([-1e-8], np.float32), STRICT).status == "fail"


def test_e4_a_bool_mismatch_has_its_index():
    verdict = compare_tensors(tensor([True, False, True]), tensor([True, True, True]), FP32)
    assert verdict.status == "fail"
    assert "1 of 3 elements differ" in verdict.reason
    assert "index 1 [1]" in verdict.reason
    assert (verdict.metrics["differing"], verdict.metrics["worst_index"]) == (1, 1)


def test_e4_a_string_mismatch_has_its_index():
    verdict = compare_tensors(tensor(["a/b", "\u732b"]), tensor(["a/b", "\u732b "]), FP32)
    assert verdict.status == "fail"
    assert verdict.reason == "1 of 2 strings differ, first at index 1 [1]"
    assert compare_tensors(tensor(["a", ""]), tensor(["a", ""]), FP32).status == "pass"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex64", "M8[s]"])
def test_e4_an_unknown_dtype_is_not_compared(dtype):
    values = np.ones(2, np.complex64)
    for held in (None, values):
        verdict = compare_tensors(Tensor("y", dtype, (2,), held), Tensor("y", dtype, (2,), held), FP32)
        assert verdict.status == "not_compared"
        assert dtype in verdict.reason


@pytest.mark.parametrize("side", ["reference", "judged"])
def test_e4_bytes_that_were_not_read_are_not_compared(side):
    there, gone = tensor([1.0], np.float32), Tensor("y", "float32", (1,), None, reason="not kept")
    pair = (gone, there) if side == "reference" else (there, gone)
    verdict = compare_tensors(*pair, FP32)
    assert (verdict.status, verdict.reason) == ("not_compared", f"{side} side: not kept")


def test_e4_wide_integers_are_exact():
    ref = tensor([2**62, 1], np.int64)
    verdict = compare_tensors(ref, tensor([2**62 + 1, 1], np.int64), FP32)
    assert verdict.status == "fail"
    assert "1 of 2 elements differ" in verdict.reason


def test_e4_another_dtype_fails_before_any_number():
    verdict = compare_tensors(tensor([1, 2], np.float32), tensor([1, 2], np.int32), FP32)
    assert (verdict.status, verdict.metrics) == ("fail", None)
    assert verdict.reason == "dtype int32 where the reference has float32"


def test_e7_empty_against_empty_passes_as_empty():
    empty = tensor(np.zeros((0, 4), np.float32))
    verdict = compare_tensors(empty, empty, FP32)
    assert (verdict.status, verdict.reason) == ("pass", "empty")


@pytest.mark.parametrize(
    ("ref", "got", "words"),
    [
        (np.zeros((0, 4)), np.zeros((3, 4)), "shape 3x4 where the reference has 0x4"),
        (np.array(1.0), np.array([1.0]), "shape 1 where the reference has scalar"),
        (np.array("a"), np.array(["a"]), "shape 1 where the reference has scalar"),
    ],
)
def test_e7_shape_is_told_before_any_number(ref, got, words):
    verdict = compare_tensors(tensor(ref), tensor(got), FP32)
    assert (verdict.status, verdict.metric, verdict.metrics) == ("fail", "shape", None)
    assert words in verdict.reason


def test_e10_one_spike_is_found_where_the_mean_is_tiny():
    ref = np.random.default_rng(1).normal(size=(1, 384, 384, 3)).astype(np.float32)
    ref[0, 100, 200, 1] = 0.5
    got = ref.copy()
    got[0, 100, 200, 1] = 1.5
    verdict = compare_tensors(tensor(ref), tensor(got), FP32)
    assert verdict.status == "fail"
    assert verdict.metrics["max_abs"] == 1.0
    assert verdict.metrics["mean_abs"] == pytest.approx(2.26e-6, rel=1e-3)
    assert "[0,100,200,1]" in verdict.reason


def test_e10_a_doubled_tensor_fails_although_its_cosine_is_one():
    ref = np.random.default_rng(2).normal(size=1000).astype(np.float32)
    verdict = compare_tensors(tensor(ref), tensor(2 * ref), FP32)
    assert verdict.status == "fail"
    assert verdict.metrics["cosine"] == pytest.approx(1.0)
    assert "looks scaled by 2" in verdict.reason


def test_nothing_but_nan_on_both_sides_is_not_compared():
    nan = tensor([np.nan, np.nan], np.float32)
    verdict = compare_tensors(nan, nan, FP32)
    assert verdict.status == "not_compared"
    assert "no element is finite" in verdict.reason


def test_a_nan_at_another_place_fails():
    verdict = compare_tensors(tensor([np.nan, 1.0, 2.0], np.float32), tensor([1.0, np.nan, 2.0], np.float32), FP32)
    assert (verdict.status, verdict.metric) == ("fail", "nonfinite")


SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
DTYPES = st.sampled_from(["float16", "float32", "float64", "int8", "uint8", "int64", "uint64", "bool"])
TENSORS = st.tuples(DTYPES, SHAPES).flatmap(lambda kind: arrays.arrays(kind[0], kind[1])).map(tensor)


@given(TENSORS, TENSORS, st.sampled_from(PROFILE_NAMES))
def test_any_pair_has_a_verdict_in_strict_json(ref, got, name):
    verdict = compare_tensors(ref, got, profile(name))
    json.dumps(verdict.metrics, allow_nan=False)
    assert verdict.status in ("pass", "fail", "not_compared")
    if verdict.status == "pass":
        assert ref.shape == got.shape
    else:
        assert verdict.reason


@given(TENSORS, st.sampled_from(PROFILE_NAMES))
def test_a_tensor_agrees_with_itself(held, name):
    assert compare_tensors(held, held, profile(name)).status in ("pass", "not_compared")
