import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.metrics.edits import edit_distance, error_rate


@pytest.mark.parametrize(
    ("got", "ref", "edits"),
    [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("a/b", "a/b ", 1), ("猫", "猫 ", 1), ("flaw", "lawn", 2)],
)
def test_known_distances(got, ref, edits):
    assert edit_distance(got, ref) == edits


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_it_is_a_distance(one, other, third):
    assert edit_distance(one, other) == edit_distance(other, one)
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, third) <= edit_distance(one, other) + edit_distance(other, third)
    assert edit_distance(one, other) <= max(len(one), len(other))


def test_rate_is_for_each_character_of_the_reference():
    assert error_rate("abxd", "abcd") == 0.25
    assert error_rate("ab", "") == 2.0
