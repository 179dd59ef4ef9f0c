import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.metrics.distribution import divergence, is_distribution, top_agreement


def softmax(rows):
    power = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True)


def test_a_known_divergence():
    assert divergence(np.array([0.5, 0.5]), np.array([0.75, 0.25])) == pytest.approx(
        0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    )


@given(st.integers(0, 2**32 - 1))
def test_never_negative_and_zero_only_for_the_same(seed):
    rng = np.random.default_rng(seed)
    one, other = softmax(rng.standard_normal((3, 7))), softmax(rng.standard_normal((3, 7)))
    assert divergence(one, other) > 0
    assert divergence(one, one) == 0


def test_the_worst_row_counts():
    good, bad = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    assert divergence(np.stack([good, bad]), np.stack([good, good])) == divergence(bad, good)


def test_no_chance_for_what_is_possible_is_infinite_and_not_a_number():
    assert divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) is None
    assert divergence(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    "values",
    [[0.5, 0.6], [1.5, -0.5], [1.0], [math.nan, 1.0], [], 1.0],
    ids=["sum", "sign", "one", "nan", "empty", "0d"],
)
def test_what_is_no_distribution(values):
    assert not is_distribution(np.array(values, dtype=np.float32))
    assert divergence(np.array(values), np.array(values)) is None


def test_best_classes():
    ref = np.array([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
    got = np.array([[0.2, 0.7, 0.1], [0.3, 0.5, 0.2]])
    assert top_agreement(got, ref, 1) == 0.5
    assert top_agreement(got, ref, 2) == 0.5
    assert top_agreement(ref, ref, 2) == 1.0


def test_ties_go_to_the_smaller_index_on_both_sides():
    assert top_agreement(np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.5, 0.0]), 1) == 1.0
    assert top_agreement(np.array([1.0, 1.0, 0.0]), np.array([0.5, 1.0, 0.0]), 1) == 0.0


def test_a_row_with_nan_agrees_with_none():
    row = np.array([np.nan, 1.0, 0.0])
    assert top_agreement(row, row, 1) == 0.0


@pytest.mark.parametrize(("shape", "best"), [((), 1), ((3,), 3), ((3,), 0), ((0, 4), 1)])
def test_where_the_best_classes_mean_nothing(shape, best):
    assert top_agreement(np.zeros(shape), np.zeros(shape), best) is None
