from dataclasses import replace

import numpy as np
import pytest

from consistency.judge_layer import LayerJudge
from consistency.records import NonFinite, ReferenceLayer, Scale
from consistency.thresholds import profile
from tests.consistency.builders import Node, digest, observe, reference_of


def judge(got, ref, name="fp32", op="Conv", inputs=(), canonical=None, **changes):
    golden = Node("y", op, ("x",), np.asarray(ref))
    other = None if canonical is None else [replace(golden, value=np.asarray(canonical))]
    (reference,) = reference_of([golden], other)
    reference = replace(reference, inputs=tuple(layer.id for layer in inputs) or ("x",))
    observed = observe(replace(golden, value=np.asarray(got)), golden, 1e-4, **changes)
    layers = {layer.id: layer for layer in (reference, *inputs)}
    return LayerJudge(profile(name), layers).judge(reference, 3, observed)


def f32(*values):
    return np.array(values, np.float32)


def test_equal_bits_pass_as_canonical():
    verdict = judge(f32(1, 2), f32(1, 2))
    assert (verdict.status, verdict.matched, verdict.metrics.max_abs, verdict.index) == ("pass", "canonical", 0.0, 3)
    assert verdict.metrics.cosine == 1.0


def test_a_canonical_digest_inherits_its_statistics_exactly():
    canonical = f32(1.00001, 2)
    verdict = judge(canonical, f32(1, 2), canonical=canonical, stats=None)
    assert (verdict.status, verdict.matched) == ("pass", "canonical")
    assert verdict.metrics.max_abs == pytest.approx(1e-5, rel=1e-2)


def test_golden_bits_pass_where_canonical_differs():
    assert judge(f32(1, 2), f32(1, 2), canonical=f32(1.00001, 2)).matched == "golden"


def test_no_digest_and_no_statistics_is_not_compared():
    verdict = judge(f32(1, 3), f32(1, 2), stats=None)
    assert verdict.status == "not_compared"
    assert verdict.reason == "no reference has this digest, and no statistics came back"


def test_statistics_of_part_of_a_tensor_are_not_compared():
    part = judge(f32(1, 2.5), f32(1, 2)).observed.stats
    verdict = judge(f32(1, 2.5), f32(1, 2), stats=replace(part, count=1))
    assert (verdict.status, verdict.reason) == ("not_compared", "statistics cover 1 of 2 elements")


def test_a_failure_says_where_how_far_and_what_would_have_passed():
    ref = np.ones((1, 2, 3), np.float32)
    got = ref.copy()
    got[0, 1, 2] += 0.25
    verdict = judge(got, ref)
    assert verdict.status == "fail"
    assert verdict.reason == (
        "Conv `y` differs from the golden by 0.25 (bound 5e-05) at index 5 [0,1,2] (got 1.25, golden 1)"
    )
    assert (verdict.measured, verdict.would_pass, verdict.metric) == (0.25, 0.25, "max_abs")
    assert verdict.bound == pytest.approx(5e-5)
    assert verdict.metrics.over_bound == 1


def test_a_pure_scale_is_hinted():  # E10
    ref = f32(*np.linspace(1, 2, 50))
    assert "looks scaled by 2" in judge(2 * ref, ref).reason


def test_nan_of_a_pooling_layer_fails_first_with_a_cause_and_no_error_number():  # A1
    big = ReferenceLayer("x", "Conv", "float32", (1, 1, 232, 304), (), "g", Scale(1, 1, 1))
    got, ref = np.full((1, 1, 1, 1), np.nan, np.float32), np.ones((1, 1, 1, 1), np.float32)
    verdict = judge(got, ref, "fp16", "GlobalAveragePool", inputs=(big,))
    assert (verdict.status, verdict.metric) == ("fail", "nonfinite")
    assert verdict.reason == (
        "GlobalAveragePool `y` has 1 NaN of 1 elements where the golden has no non-finite value "
        "(fp16 range: 70528 elements are summed and FP16 ends at 65504)"
    )
    assert verdict.metrics.max_abs is None
    assert verdict.nonfinite == NonFinite(nan=1)


def test_infinities_are_told_from_nan():  # A6
    ref = f32(-50, -50, -50, 0, -50, -50, -50, -50)
    got = np.where(ref == -50, -np.inf, ref).astype(np.float32)
    assert "has 7 -Inf of 8 elements" in judge(got, ref).reason


def test_non_finite_counts_fail_even_without_statistics():
    assert judge(f32(np.nan, 2), f32(1, 2), stats=None).status == "fail"


def test_nan_in_other_places_fails():
    verdict = judge(f32(np.nan, 1), f32(1, np.nan))
    assert (verdict.status, verdict.metric, verdict.would_pass) == ("fail", "nonfinite_mismatch", None)


def test_nan_where_the_golden_has_it_passes():
    assert judge(f32(np.nan, 1.000001), f32(np.nan, 1)).status == "pass"


def test_shape_and_dtype_come_before_numbers():
    verdict = judge(np.zeros((3, 4), np.float32), np.zeros((0, 4), np.float32))
    assert (verdict.status, verdict.metric, verdict.metrics) == ("fail", "shape", None)
    assert "12 elements instead of 0" in verdict.reason
    verdict = judge(np.zeros(4, np.float16), np.zeros(4, np.float32))
    assert verdict.reason == "Conv `y` has dtype float16 where the golden has float32"


def test_a_scalar_is_not_a_tensor_of_one_element():  # E7
    assert judge(f32(1), np.float32(1)).metric == "shape"


def test_empty_against_empty_passes_as_empty():  # E7
    empty = np.zeros((0, 4), np.float32)
    assert judge(empty, empty).status == "pass"
    assert judge(empty, empty).reason == "empty"


def test_half_precision_arrives_where_the_profile_allows_it():  # A15
    assert judge(np.float16([142 / 255]), f32(142 / 255), "fp16").status == "pass"
    assert judge(np.float16([142 / 255]), f32(142 / 255), "fp32").status == "fail"


def test_flushed_subnormals_pass_with_a_note():  # A14
    verdict = judge(f32(0.0), f32(1e-39))
    assert (verdict.status, verdict.reason) == ("pass", "subnormal flush")


def test_int8_counts_are_shown_when_they_pass_and_when_they_fail():  # A5
    ref = np.zeros(51200, np.int8)
    got = ref.copy()
    got[:80] = 1
    verdict = judge(got, ref, "int8")
    assert verdict.status == "pass"
    assert verdict.reason == "80 of 51200 elements differ, by at most 1"
    got[:800] = 1
    verdict = judge(got, ref, "int8")
    assert verdict.reason == "Conv `y` differs in 800 of 51200 elements (1.562 %, bound 1 %), by at most 1"


def test_a_systematic_error_within_bounds_is_noted():  # A22
    ref = np.zeros(256, np.float32) + 1
    assert judge(ref + np.float32(2e-5), ref).reason == "systematic, same sign pattern"


def test_a_permuted_layout_of_equal_shape_fails():  # A10
    ref = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    verdict = judge(ref.transpose(0, 2, 3, 1).reshape(1, 2, 3, 4), ref)
    assert (verdict.status, verdict.metrics.differing, verdict.metrics.count) == ("fail", 22, 24)


def test_bitexact_names_the_ulp_distance():  # A13
    got, ref = f32(-1.8208287954330444), f32(-1.8208290338516235)
    assert judge(got, ref, "fp32").status == "pass"
    verdict = judge(got, ref, "bitexact")
    assert (verdict.status, verdict.metric) == ("fail", "digest")
    assert verdict.reason == (
        "Conv `y` does not have canonical's bits: 1 of 1 elements differ, the worst by 2 ULP (2.384e-07)"
    )


def test_bitexact_is_against_canonical_and_not_the_golden():
    canonical = f32(1.00001, 2)
    assert judge(canonical, f32(1, 2), "bitexact", canonical=canonical).status == "pass"
    verdict = judge(f32(1, 2), f32(1, 2), "bitexact", canonical=canonical)
    assert verdict.status == "fail"
    assert "(counted against the golden)" in verdict.reason


def test_bitexact_without_canonical_is_not_compared():
    golden = Node("y", "Conv", ("x",), f32(1))
    reference = replace(reference_of([golden])[0], canonical_digest=None, canonical_stats=None)
    verdict = LayerJudge(profile("bitexact"), {}).judge(reference, 0, observe(golden, golden, 0.0))
    assert verdict.status == "not_compared"


def test_a_dtype_without_a_rule_is_never_a_pass():  # E4
    golden = Node("y", "Cast", ("x",), f32(1))
    reference = replace(reference_of([golden])[0], dtype="string")
    observed = replace(observe(golden, golden, 0.0), dtype="string", digest="other")
    assert LayerJudge(profile("fp32"), {}).judge(reference, 0, observed).status == "not_compared"


def test_an_equal_digest_of_another_dtype_is_no_match():
    zero16, zero32 = np.zeros(4, np.float16), np.zeros(2, np.float32)
    assert digest(zero16) == digest(zero32)
    assert judge(zero16, zero32).status == "fail"


def test_inherited_counts_over_another_bound_are_not_shown_for_a_pass():
    canonical = f32(1.00001, 2)
    golden = Node("y", "Conv", ("x",), f32(1, 2))
    (reference,) = reference_of([golden], [replace(golden, value=canonical)])
    reference = replace(reference, canonical_stats=replace(reference.canonical_stats, over_bound=1))
    observed = observe(replace(golden, value=canonical), golden, 0.0)
    verdict = LayerJudge(profile("fp32"), {}).judge(reference, 0, observed)
    assert (verdict.status, verdict.metrics.over_bound) == ("pass", 0)


def test_bitexact_names_non_finite_values():
    assert judge(f32(np.nan, 2), f32(1, 2), "bitexact").reason.endswith("; it has 1 NaN")
    assert "it has" not in judge(f32(1.5, 2), f32(1, 2), "bitexact").reason
