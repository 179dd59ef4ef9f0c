import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.metrics.channels import channel_error


def test_one_broken_channel_of_many_is_named():
    ref = np.random.default_rng(0).standard_normal((1, 64, 5, 5)).astype(np.float32)
    got = ref.copy()
    got[0, 17] += 0.25
    found = channel_error(got, ref)
    assert found.worst == 17
    assert found.hit(0.1) == 1
    assert found.largest[17] == pytest.approx(0.25, rel=1e-5)


@given(st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_the_largest_of_all_channels_is_the_largest_of_all(axis, seed):
    rng = np.random.default_rng(seed)
    got, ref = rng.standard_normal((2, 3, 3, 4)), rng.standard_normal((2, 3, 3, 4))
    assert max(channel_error(got, ref, axis).largest) == np.abs(got - ref).max()


def test_non_finite_pairs_are_no_error_here():
    ref = np.zeros((1, 2, 2))
    got = ref.copy()
    got[0, 0, 0], got[0, 1, 1] = np.nan, 2.0
    assert channel_error(got, ref).largest == (0.0, 2.0)


@pytest.mark.parametrize("shape", [(), (3,), (3, 4), (1, 1, 5), (1, 2, 0)])
def test_what_has_no_channels(shape):
    assert channel_error(np.zeros(shape), np.zeros(shape)) is None


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes differ"):
        channel_error(np.zeros((1, 2, 3)), np.zeros((1, 2, 4)))
