import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consistency.metrics import scale_of, stats_from_arrays
from consistency.records import ReferenceLayer, Scale
from consistency.thresholds import (
    PROFILE_NAMES,
    Bounds,
    FloatRule,
    IntegerRule,
    Profile,
    absolute_bound,
    judge,
    passing_bounds,
    profile,
)


def verdict(name, got, ref, op="Conv"):
    got, ref = np.asarray(got), np.asarray(ref)
    bounds = profile(name).bounds(op, ref.dtype.name, scale_of(ref))
    return judge(stats_from_arrays(got, ref, bounds.max_abs), bounds)


def failed(outcomes):
    return [outcome.metric for outcome in outcomes if not outcome.passed]


def f32(*values):
    return np.array(values, np.float32)


def gelu_exact_and_tanh():
    x = np.linspace(-5, 5, 2001)
    erf = np.vectorize(__import__("math").erf)
    exact = 0.5 * x * (1 + erf(x / np.sqrt(2)))
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return exact.astype(np.float32), tanh.astype(np.float32)


def test_profiles_are_found_by_file_name():
    assert PROFILE_NAMES == ("bf16", "bitexact", "fp16", "fp32", "int8")
    assert all(profile(name).name == name for name in PROFILE_NAMES)


def test_an_unknown_profile_names_the_known_ones():
    with pytest.raises(ValueError, match="unknown profile 'fp64'; known: bf16, bitexact, fp16, fp32, int8"):
        profile("fp64")


@pytest.mark.parametrize("name", ["fp32", "fp16", "int8"])
def test_equal_zeros_pass(name):  # E3
    assert failed(verdict(name, f32(0, 0, 0, 0), f32(0, 0, 0, 0))) == []


def test_an_error_against_zeros_fails_fp32():  # E3
    assert failed(verdict("fp32", f32(0, 0, 0, 1e-3), f32(0, 0, 0, 0))) == ["max_abs"]


def test_opposite_signs_fail_a_strict_rule():  # E3
    strict = Bounds(max_abs=0.0, min_cosine=1.0, max_norm_drift=0.0)
    assert failed(judge(stats_from_arrays(f32(1e-8), f32(-1e-8), 0.0), strict)) == ["max_abs", "cosine"]


def test_last_digits_pass_fp32():  # A13
    assert failed(verdict("fp32", f32(-1.8208287954330444), f32(-1.8208290338516235))) == []


def test_a_flushed_subnormal_passes_whatever_its_relative_error():  # A14
    assert failed(verdict("fp32", f32(0.0), f32(1e-39))) == []


def test_half_precision_storage_passes_fp16_and_fails_fp32():  # A15
    got, ref = f32(0.556640625), f32(142 / 255)
    assert failed(verdict("fp16", got, ref)) == []
    assert "max_abs" in failed(verdict("fp32", got, ref))


def test_the_other_gelu_fails_fp32():  # A22
    exact, tanh = gelu_exact_and_tanh()
    outcome = next(o for o in verdict("fp32", exact, tanh) if o.metric == "max_abs")
    assert outcome.measured == pytest.approx(4.732e-4, rel=1e-3)
    assert not outcome.passed


def test_one_spike_fails_although_the_mean_hides_it():  # E10
    ref = np.random.default_rng(0).normal(size=(1, 384, 384, 3)).astype(np.float32)
    got = ref.copy()
    got[0, 7, 7, 1] += 1.0
    assert failed(verdict("fp16", got, ref)) == ["max_abs"]


@pytest.mark.parametrize("name", ["fp32", "fp16", "int8"])
def test_a_doubled_tensor_fails_although_its_cosine_is_one(name):  # E10
    ref = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert "norm_drift" in failed(verdict(name, 2 * ref, ref))


def test_softmax_against_zeros_fails_fp16():
    ref = np.full((1, 1000), 1e-3, np.float32)
    assert failed(verdict("fp16", np.zeros_like(ref), ref)) == ["max_abs", "norm_drift"]
    wide = Bounds(max_abs=1.0, min_cosine=0.9, max_norm_drift=0.01)
    assert failed(judge(stats_from_arrays(np.zeros_like(ref), ref, 1.0), wide)) == ["norm_drift"]


@pytest.mark.parametrize("outliers", [1, 9])
def test_outliers_do_not_hide_errors(outliers):
    ref = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    ref[:outliers] = 1e4
    got = ref.copy()
    got[5000] += 0.05
    assert failed(verdict("fp32", got, ref)) == ["max_abs"]


@pytest.mark.parametrize(("mask", "error"), [(-1e9, 0.01), (-1e4, 0.01)])
def test_masks_do_not_hide_errors(mask, error):
    ref = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    ref += np.triu(np.full((64, 64), mask, np.float32), 1)
    got = ref.copy()
    got[60, 3] += np.float32(error)
    assert failed(verdict("fp32", got, ref)) == ["max_abs"]


def test_the_rounding_of_a_mask_is_no_failure():
    ref = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    ref += np.triu(np.full((64, 64), -1e4, np.float32), 1)
    got = np.where(ref < -5e3, np.nextafter(ref, np.float32(0)), ref)
    assert failed(verdict("fp32", got, ref)) == []


def test_a_mostly_zero_layer_is_scaled_by_its_rms():
    ref = np.zeros(10_000, np.float32)
    ref[:5] = 100.0
    assert scale_of(ref).p999 == 0.0
    assert failed(verdict("fp32", ref * np.float32(1 + 5e-7), ref)) == []
    assert "max_abs" in failed(verdict("fp32", ref * np.float32(1 + 1e-3), ref))


def test_nan_fails_whatever_the_bound_and_nothing_would_pass():
    wide = Bounds(max_abs=1e9)
    outcome = judge(stats_from_arrays(f32(np.nan, 1), f32(1, 1), 1e9), wide)[0]
    assert (outcome.metric, outcome.passed, outcome.would_pass) == ("nonfinite_mismatch", False, None)


def test_ten_percent_nan_never_passes():
    ref = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    got = ref.copy()
    got[::10] = np.nan
    for name in ("fp32", "fp16", "int8"):
        assert failed(verdict(name, got, ref))[0] == "nonfinite_mismatch"


def test_int8_may_differ_by_one_lsb_in_one_percent():  # A5
    ref = np.zeros(51200, np.int8)
    got = ref.copy()
    got[:80] = 1
    outcomes = verdict("int8", got, ref)
    assert failed(outcomes) == []
    assert [o.measured for o in outcomes if o.metric == "differing"] == [0.0015625]
    tight = Profile("tight", profile("int8").floats, {"int8": IntegerRule(1, 0.001)}).bounds(
        "Conv", "int8", scale_of(ref)
    )
    assert failed(judge(stats_from_arrays(got, ref, 1), tight)) == ["differing"]
    got[0] = 2
    assert failed(verdict("int8", got, ref)) == ["max_abs"]


@pytest.mark.parametrize("name", ["fp32", "fp16", "int8"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_wide_integers_are_exact(name, dtype):
    assert failed(verdict(name, np.array([7], dtype), np.array([8], dtype))) == ["max_abs", "differing"]


def test_bool_is_exact():  # E4
    assert failed(verdict("int8", [True, False, True], [True, True, True])) == ["max_abs", "differing"]


def test_a_dtype_without_a_rule_has_no_bounds():  # E4
    assert profile("fp32").bounds("Cast", "string", Scale(0, 0, 0)) is None
    assert profile("fp32").bound("Cast", "string", Scale(0, 0, 0)) == 0.0


def test_an_operator_can_have_a_rule_of_its_own():
    loose = FloatRule(1.0, 1.0, 0.0, 0.0, 9.0)
    own = Profile("own", profile("fp32").floats, by_op={"Resize": loose})
    assert own.bound("Resize", "float32", Scale(1, 1, 1)) == 1.0
    assert own.bound("Conv", "float32", Scale(1, 1, 1)) == pytest.approx(5e-5)


def test_absolute_bound_is_what_a_device_counts_against():
    layer = ReferenceLayer("y", "Conv", "float32", (4,), ("x",), "d", Scale(rms=1.0, p999=2.0, max_abs=3.0))
    assert absolute_bound(profile("fp32"), layer) == pytest.approx(1e-4)
    assert absolute_bound(profile("bitexact"), layer) == 0.0


@pytest.mark.parametrize(
    ("name", "expected", "got", "accepted"),
    [
        ("fp16", "float32", "float16", True),
        ("fp32", "float32", "float16", False),
        ("fp32", "int8", "uint8", False),
        ("bitexact", "float32", "float64", False),
    ],
)
def test_types_a_layer_may_arrive_in(name, expected, got, accepted):
    assert profile(name).accepts_dtype(expected, got) is accepted


FINITE = {"allow_nan": False, "allow_infinity": False}


@given(
    st.sampled_from(["fp32", "fp16", "int8"]),
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(*[hnp.arrays(np.float32, n, elements=st.floats(width=32, **FINITE))] * 2)
    ),
)
def test_the_bounds_that_would_pass_do_pass(name, pair):
    got, ref = pair
    bounds = profile(name).bounds("Conv", "float32", scale_of(ref))
    stats = stats_from_arrays(got, ref, bounds.max_abs)
    assert failed(judge(stats, passing_bounds(stats, bounds))) == []


@given(hnp.arrays(np.int8, 20), hnp.arrays(np.int8, 20))
def test_the_integer_bounds_that_would_pass_do_pass(got, ref):
    bounds = profile("int8").bounds("Conv", "int8", scale_of(ref))
    stats = stats_from_arrays(got, ref, 1)
    assert failed(judge(stats, passing_bounds(stats, bounds))) == []


def test_a_softmax_over_many_classes_is_not_judged_by_the_scale_of_its_zeros():
    ref = np.full((6, 6906), 1e-9, np.float32)
    ref[:, 7] = 0.9
    got = ref.copy()
    got[2, 7] -= np.float32(2e-6)
    assert failed(verdict("fp32", got, ref, op="Softmax")) == []
    assert failed(verdict("fp32", got, ref, op="Conv")) == ["max_abs"]
    got[2, 7] -= np.float32(2e-5)
    assert "max_abs" in failed(verdict("fp32", got, ref, op="Softmax"))
    even = np.full((1, 1000), 1e-3, np.float32)
    assert "max_abs" in failed(verdict("fp32", even * 0, even, op="Softmax"))
