import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from consistency.metrics.lsb import MOST, lsb_histogram


def test_a_rounding_rule_shows_as_a_bias():
    ref = np.zeros(51_200, np.int8)
    got = ref.copy()
    got[:80] = 1
    found = lsb_histogram(got, ref)
    assert str(found) == "0: 51120, +1: 80"
    assert found.bias == 1.0
    got[:40] = -1
    assert lsb_histogram(got, ref).bias == 0.0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_the_ends_of_the_range_do_not_wrap(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = lsb_histogram(np.array([low, high], dtype), np.array([high, low], dtype))
    assert found.counts == ((-MOST, 1), (MOST, 1))
    assert str(found) == "≤-8: 1, ≥+8: 1"


@given(hnp.arrays(np.uint8, 30), hnp.arrays(np.uint8, 30))
def test_every_element_is_counted_once_and_sides_mirror(got, ref):
    there, back = lsb_histogram(got, ref), lsb_histogram(ref, got)
    assert sum(count for _, count in there.counts) == 30
    assert sorted((-step, count) for step, count in back.counts) == sorted(there.counts)


def test_equal_tensors_have_no_bias():
    assert lsb_histogram(np.zeros(3, np.int8), np.zeros(3, np.int8)).bias is None


def test_real_numbers_are_refused():
    with pytest.raises(ValueError, match="two integer tensors of one shape"):
        lsb_histogram(np.zeros(3), np.zeros(3))
