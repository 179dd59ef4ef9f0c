import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consistency.metrics import metrics_from_stats, scale_of, stats_from_arrays
from consistency.metrics.error import coherence


def measure(got, ref):
    return metrics_from_stats(stats_from_arrays(got, ref, 0.0), scale_of(ref))


def test_equal_zeros_have_no_error_and_cosine_one():  # E3
    metrics = measure(np.zeros(4, np.float32), np.zeros(4, np.float32))
    assert (metrics.max_abs, metrics.scaled_rms, metrics.scaled_p999, metrics.cosine, metrics.norm_ratio) == (
        0,
        0,
        0,
        1,
        1,
    )
    assert metrics.sqnr_db is None
    assert "sqnr_db: infinite, no error" in metrics.reason


def test_an_error_against_zeros_has_no_ratio_and_says_so():  # E3
    metrics = measure(np.array([0, 0, 0, 1e-3], np.float32), np.zeros(4, np.float32))
    assert metrics.max_abs == pytest.approx(1e-3)
    assert (metrics.scaled_rms, metrics.cosine, metrics.norm_ratio) == (None, None, None)
    assert "the golden has no scale" in metrics.reason


def test_cosine_passes_a_doubled_tensor_and_the_norm_ratio_does_not():  # E10
    ref = np.arange(1, 9, dtype=np.float32)
    metrics = measure(2 * ref, ref)
    assert metrics.cosine == pytest.approx(1.0)
    assert metrics.norm_ratio == 2.0


def test_summary_statistics_do_not_hide_a_layout():  # A10
    ref = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    got = ref.transpose(0, 2, 3, 1).reshape(1, 2, 3, 4)
    assert got.mean() == ref.mean()
    metrics = measure(got, ref)
    assert (metrics.differing, metrics.count) == (22, 24)
    assert metrics.cosine < 0.99


@pytest.mark.parametrize(
    ("got", "ref", "largest", "cosine"),
    [
        ("asymmetric", "half", 1.92, 0.94381),
        ("half", "aligned", 1.38272, 0.98099),
    ],
)
def test_resize_modes_read_as_published(got, ref, largest, cosine):  # A8
    positions = {
        "asymmetric": np.minimum(np.arange(10) * 0.2, 1),
        "half": np.clip((np.arange(10) + 0.5) * 0.2 - 0.5, 0, 1),
        "aligned": np.arange(10) / 9,
    }

    def resized(mode):
        t = positions[mode]
        corner = np.array([[5, 1], [1, 5]], float)
        weights = np.stack([1 - t, t])
        return weights.T @ corner @ weights

    metrics = measure(resized(got), resized(ref))
    assert metrics.max_abs == pytest.approx(largest, abs=1e-5)
    assert metrics.cosine == pytest.approx(cosine, abs=1e-5)


def test_no_number_is_printed_where_all_is_non_finite():  # A1
    metrics = measure(np.array([[np.nan]], np.float32), np.array([[1.0]], np.float32))
    assert metrics.max_abs is None
    assert metrics.reason == "no pair of finite elements to measure"


def test_matching_nan_is_no_error():
    both = np.array([np.nan, 1.0], np.float32)
    assert measure(both, both).max_abs == 0.0


def test_empty_says_so():  # E7
    metrics = measure(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32))
    assert (metrics.max_abs, metrics.count, metrics.reason) == (0.0, 0, "empty tensor")


def test_coherence_tells_an_offset_from_noise():
    ref = np.zeros(4096)
    noise = np.random.default_rng(1).normal(size=4096)
    assert coherence(stats_from_arrays(ref + 0.5, ref, 0.0)) == pytest.approx(1.0)
    assert coherence(stats_from_arrays(noise, ref, 0.0)) < 0.1


@given(
    st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64]).flatmap(
        lambda dtype: st.integers(0, 30).flatmap(lambda n: st.tuples(hnp.arrays(dtype, n), hnp.arrays(dtype, n)))
    )
)
def test_metrics_are_never_nan_or_infinite_and_absent_ones_have_a_reason(pair):
    metrics = measure(*pair)
    values = [value for name, value in metrics.__dict__.items() if name != "reason"]
    assert all(math.isfinite(value) for value in values if value is not None)
    judged = (metrics.max_abs, metrics.scaled_rms, metrics.sqnr_db, metrics.cosine, metrics.norm_ratio)
    assert metrics.reason or None not in judged
    assert metrics.cosine is None or -1 <= metrics.cosine <= 1
