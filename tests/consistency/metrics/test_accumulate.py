import itertools
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consistency.metrics import StatsAccumulator, stats_from_arrays
from consistency.metrics.accumulate import BLOCK, LANES, add_lanes

FLOATS = st.sampled_from([np.float16, np.float32, np.float64])
EXACT = st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.bool_])


def pairs(dtypes):
    return dtypes.flatmap(
        lambda dtype: st.integers(0, 60).flatmap(
            lambda size: st.tuples(hnp.arrays(dtype, size), hnp.arrays(dtype, size)),
        )
    )


def test_names_the_worst_element_of_a_spike_that_a_mean_hides():  # E10
    ref = np.zeros((1, 384, 384, 3), np.float32)
    got = ref.copy()
    got.reshape(-1)[1234] = 1.0
    stats = stats_from_arrays(got, ref, 0.5)
    assert (stats.max_abs, stats.worst_index, stats.over_bound, stats.differing) == (1.0, 1234, 1, 1)
    assert stats.sum_diff / stats.count == pytest.approx(2.26e-6, rel=1e-2)


def test_counts_int8_mismatches_in_lsb():  # A5
    ref = np.zeros(51200, np.int8)
    got = ref.copy()
    got[:80] = 1
    stats = stats_from_arrays(got, ref, 1)
    assert (stats.differing, stats.count, stats.max_abs, stats.over_bound) == (80, 51200, 1.0, 0)


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(np.int8, -128, 127), (np.uint8, 0, 255), (np.int64, -(2**63), 2**63 - 1)]
)
def test_integer_differences_never_wrap(dtype, low, high):
    stats = stats_from_arrays(np.array([low, high], dtype), np.array([high, low], dtype), 0)
    assert stats.max_abs == float(high - low)
    assert stats.over_bound == 2
    assert stats.sum_diff == 0.0


def test_int64_off_by_one_far_above_float_precision_is_one():
    stats = stats_from_arrays(np.array([2**60 + 1]), np.array([2**60]), 0)
    assert (stats.max_abs, stats.differing, stats.over_bound) == (1.0, 1, 1)


def test_bool_mismatch_has_its_index():  # E4
    stats = stats_from_arrays(np.array([True, False, True]), np.array([True, True, True]), 0)
    assert (stats.differing, stats.worst_index, stats.over_bound) == (1, 1, 1)


def test_non_finite_values_are_counted_and_kept_out_of_the_sums():
    ref = np.array([1.0, np.nan, np.inf, -np.inf, 2.0], np.float32)
    got = np.array([np.nan, np.nan, -np.inf, -np.inf, 2.5], np.float32)
    stats = stats_from_arrays(got, ref, 0.1)
    assert stats.nonfinite_mismatch == 2
    assert stats.over_bound == 3
    assert stats.max_abs == 0.5
    assert stats.sum_sq_ref == 4.0


def test_signed_zero_differs_in_bits_only():
    stats = stats_from_arrays(np.array([-0.0], np.float32), np.array([0.0], np.float32), 0)
    assert (stats.differing, stats.max_abs, stats.worst_index) == (1, 0.0, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
def test_empty_tensors_are_no_error(dtype):  # E7
    stats = stats_from_arrays(np.zeros((0, 4), dtype), np.zeros((0, 4), dtype), 0)
    assert (stats.count, stats.max_abs, stats.worst_index) == (0, 0.0, -1)


@pytest.mark.parametrize(
    ("got", "ref"), [(np.zeros((0, 4)), np.zeros((3, 4))), (np.zeros(()), np.zeros(1)), (np.zeros(4), np.zeros((2, 2)))]
)
def test_unlike_shapes_are_refused_before_any_number(got, ref):  # E7: rank counts
    with pytest.raises(ValueError, match="shapes differ"):
        stats_from_arrays(got, ref, 1.0)


@pytest.mark.parametrize(
    ("got", "ref"),
    [
        (np.zeros(3, np.int64), np.zeros(3, np.uint64)),
        (np.zeros(3), np.zeros(3, np.int32)),
        (np.array(["a"]), np.array(["a"])),
    ],
)
def test_types_without_an_exact_difference_are_refused(got, ref):
    with pytest.raises(ValueError, match="cannot compare"):
        stats_from_arrays(got, ref, 1.0)


def test_overflow_of_float64_is_infinite_not_nan():
    top = np.finfo(np.float64).max
    stats = stats_from_arrays(np.array([top, -top]), np.array([-top, top]), 1.0)
    assert stats.over_bound == 2
    assert not any(value != value for value in asdict(stats).values())


@pytest.mark.parametrize("bound", [-1.0, float("nan")])
def test_a_bound_that_is_no_bound_is_refused(bound):
    with pytest.raises(ValueError, match="bound must be"):
        StatsAccumulator(bound)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**31), cuts=st.lists(st.integers(1, 200_000), max_size=6), size=st.integers(1, 200_000))
def test_chunks_change_no_bit(seed, cuts, size):
    rng = np.random.default_rng(seed)
    ref = rng.normal(0, 10, size).astype(np.float32)
    got = (ref * (1 + 1e-6 * rng.normal(size=size))).astype(np.float32)
    got[rng.integers(0, size, 3)] = np.nan
    whole = stats_from_arrays(got, ref, 1e-5)
    accumulator = StatsAccumulator(1e-5)
    edges = sorted({0, size, *(cut % size for cut in cuts)})
    for start, stop in itertools.pairwise(edges):
        accumulator.add(got[start:stop], ref[start:stop])
    assert accumulator.finish() == whole
    assert stats_from_arrays(got, ref, 1e-5, chunk=cuts[0] if cuts else 7_777) == whole


@pytest.mark.parametrize("size", [1, LANES - 1, LANES, 3 * LANES + 7, BLOCK, BLOCK + 1, 3 * BLOCK + 13])
def test_rows_and_blocks_are_added_one_after_another(size):
    values = np.random.default_rng(size).normal(0, 1e6, size)
    total = np.zeros(LANES)
    for start in range(0, size, BLOCK):
        block = values[start : start + BLOCK]
        rows = np.concatenate([block, np.zeros(-block.size % LANES)]).reshape(-1, LANES)
        inside = np.zeros(LANES)
        for row in rows:
            inside += row
        total += inside
    assert np.array_equal(add_lanes(np.zeros(LANES), values), total)


@given(pair=pairs(FLOATS | EXACT), bound=st.floats(0, 1e3))
def test_swapping_the_sides_mirrors_every_number(pair, bound):
    got, ref = pair
    there, back = stats_from_arrays(got, ref, bound), stats_from_arrays(ref, got, bound)
    same = ("count", "differing", "over_bound", "max_abs", "worst_index", "sum_sq_diff", "dot", "nonfinite_mismatch")
    assert {name: getattr(there, name) for name in same} == {name: getattr(back, name) for name in same}
    assert (there.sum_sq_ref, there.worst_ref) == (back.sum_sq_got, back.worst_got)


@given(pair=pairs(EXACT))
def test_integers_agree_with_python_integers(pair):
    got, ref = pair
    distances = [abs(int(a) - int(b)) for a, b in zip(got, ref, strict=True)]
    stats = stats_from_arrays(got, ref, 3)
    assert stats.max_abs == float(max(distances, default=0))
    assert stats.differing == sum(distance > 0 for distance in distances)
    assert stats.over_bound == sum(distance > 3 for distance in distances)


@given(pair=pairs(FLOATS | EXACT))
def test_no_statistic_is_nan(pair):
    assert not any(value != value for value in asdict(stats_from_arrays(*pair, 1.0)).values())
