import math

import numpy as np
import pytest

from consistency.hints import scaled_by, subnormal_flush, systematic
from consistency.metrics import stats_from_arrays
from consistency.thresholds import Bounds, judge


def test_the_other_gelu_within_1e_3_is_systematic():  # A22
    x = np.linspace(-5, 5, 2001)
    exact = 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    stats = stats_from_arrays(exact.astype(np.float32), tanh.astype(np.float32), 1e-3)
    assert all(outcome.passed for outcome in judge(stats, Bounds(max_abs=1e-3)))
    assert systematic(stats, 1e-3) == "systematic, same sign pattern"


@pytest.mark.parametrize(("offset", "noise"), [(0.0, 3e-5), (1e-6, 0.0)])
def test_neither_noise_nor_a_shared_rounding_is_systematic(offset, noise):
    ref = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    got = ref + offset + noise * np.random.default_rng(1).normal(size=4096)
    assert systematic(stats_from_arrays(got.astype(np.float32), ref, 1e-4), 1e-4) is None


@pytest.mark.parametrize(
    ("got", "ref", "flush"), [(0.0, 1e-39, True), (1e-39, 0.0, True), (1e-37, 0.0, False), (2e-39, 1e-39, False)]
)
def test_a_flush_keeps_one_side_at_zero(got, ref, flush):
    stats = stats_from_arrays(np.array([got], np.float32), np.array([ref], np.float32), 0.0)
    assert (subnormal_flush(stats, "float32") is not None) is flush


@pytest.mark.parametrize(
    ("cosine", "ratio", "hint"), [(1.0, 1.05, "looks scaled by 1.05"), (0.9, 2, None), (1, 1, None)]
)
def test_a_scale_is_named_only_where_the_direction_agrees(cosine, ratio, hint):
    assert scaled_by(cosine, ratio) == hint
