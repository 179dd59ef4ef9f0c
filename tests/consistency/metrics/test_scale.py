import math
import tracemalloc
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consistency.metrics import scale_of
from consistency.metrics.accumulate import CHUNK
from consistency.metrics.scale import rank_of
from consistency.records import Scale
from engine.models.golden import summarise


def test_outliers_do_not_move_the_percentile():
    values = np.ones(10_000, np.float32)
    values[0] = 1e6
    assert scale_of(values).p999 == 1.0
    assert scale_of(values).max_abs == 1e6


def test_non_finite_values_are_left_out():
    assert scale_of(np.array([3.0, -4.0, np.nan, np.inf])) == Scale(rms=math.sqrt(12.5), p999=4.0, max_abs=4.0)


@pytest.mark.parametrize("array", [np.zeros((0, 4)), np.zeros(5), np.full(3, np.nan), np.zeros(3, np.int8)])
def test_nothing_to_scale_by_is_zero(array):
    assert scale_of(array) == Scale(0.0, 0.0, 0.0)


def test_subnormals_do_not_vanish():
    assert scale_of(np.full(4, 1e-45, np.float32)).rms > 0
    assert scale_of(np.full(4, 5e-324)).rms == 5e-324


def test_integers_at_the_end_of_their_range():
    assert scale_of(np.array([-128, 127], np.int8)).max_abs == 128.0


@pytest.mark.parametrize("mask", [-1e4, -65504.0, -1e9, -3.4e38])
def test_a_mask_is_left_out_of_the_scale(mask):
    scores = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    masked = scores + np.triu(np.full((64, 64), mask, np.float32), 1)
    scale = scale_of(masked)
    assert 2 < scale.p999 < 5
    assert 0.9 < scale.rms < 1.1
    assert scale.max_abs > 9e3


def test_heavy_tails_and_sparse_or_saturated_layers_are_no_mask():
    rng = np.random.default_rng(0)
    for values in (
        -np.exp(rng.normal(0, 6, 10_000)),
        np.where(rng.random(10_000) < 0.01, -5e4, 0.0),
        np.array([1e6, 1.0, 1.0]),
        np.array([1.0, 1e-7, 1e-9]),
    ):
        assert scale_of(values).rms == pytest.approx(math.sqrt(np.mean(np.square(values))), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32])
@pytest.mark.parametrize("size", [1, 2, 999, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_the_percentile_is_the_element_that_a_sort_gives(dtype, size):
    values = (np.random.default_rng(size).standard_normal(size) * 50).astype(dtype)
    magnitudes = np.sort(np.abs(values.astype(np.float64)))
    assert scale_of(values).p999 == (magnitudes[rank_of(size)] if magnitudes[-1] else 0.0)


def test_memory_is_bounded_by_a_chunk():
    values = np.broadcast_to(np.float32(2.0), 40 * CHUNK)
    tracemalloc.start()
    try:
        scale_of(values)
        assert tracemalloc.get_traced_memory()[1] < 16 * 8 * CHUNK
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [1, 7, 999, 1000, 1001, 50_176])
def test_agrees_with_what_the_engine_keeps_in_a_trace(size):
    values = np.random.default_rng(size).normal(size=size).astype(np.float32)
    assert asdict(scale_of(values)) == pytest.approx(asdict(summarise(values)), rel=1e-13)


@given(hnp.arrays(st.sampled_from([np.float16, np.float32, np.float64, np.int64]), st.integers(0, 50)))
def test_scale_is_ordered_and_never_nan(array):
    scale = scale_of(array)
    assert 0 <= scale.rms <= scale.max_abs * (1 + 1e-12)
    assert 0 <= scale.p999 <= scale.max_abs
