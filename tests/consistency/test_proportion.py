import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.proportion import wilson


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_published_intervals(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson(hits, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_an_interval_holds_its_share_and_mirrors(pair: tuple[int, int]) -> None:
    hits, trials = pair
    low, high = wilson(hits, trials)
    assert 0.0 <= low <= (hits / trials if trials else 0.5) <= high <= 1.0
    mirrored = wilson(trials - hits, trials)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("hits", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(hits: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        wilson(hits, trials)
