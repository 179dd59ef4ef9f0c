import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.proportion import binomial_at_most, clopper_pearson, student, student_beyond, wilson


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


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 312, 0.0, 0.011754), (3, 312, 0.001987, 0.027842), (2, 10, 0.025211, 0.556095), (5, 5, 0.478176, 1.0)],
)
def test_the_exact_interval(hits: int, trials: int, low: float, high: float) -> None:
    assert clopper_pearson(hits, trials) == pytest.approx((low, high), abs=1e-6)
    assert clopper_pearson(trials - hits, trials) == pytest.approx((1 - high, 1 - low), abs=1e-6)


def test_the_exact_interval_of_nothing_is_everything_and_nonsense_is_refused() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    for hits, trials, confidence in ((4, 3, 0.95), (-1, 3, 0.95), (1, 3, 1.0)):
        with pytest.raises(ValueError, match=r"no share|between 0 and 1"):
            clopper_pearson(hits, trials, confidence)


@given(st.integers(0, 60), st.integers(1, 60))
def test_both_intervals_hold_the_share_and_the_exact_one_covers_by_its_definition(hits: int, trials: int) -> None:
    hits = min(hits, trials)
    low, high = clopper_pearson(hits, trials)
    assert low <= hits / trials <= high
    if hits:
        assert 1 - binomial_at_most(hits - 1, trials, low) == pytest.approx(0.025, abs=1e-9)
    if hits < trials:
        assert binomial_at_most(hits, trials, high) == pytest.approx(0.025, abs=1e-9)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.99, 6, 3.14267),
        (0.999, 7, 4.78529),
        (0.999, 30, 3.38518),
        (0.5, 4, 0.0),
    ],
)
def test_student_s_quantiles_are_those_of_the_tables(probability: float, freedom: int, quantile: float) -> None:
    assert student(probability, freedom) == pytest.approx(quantile, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(("probability", "freedom"), [(0.4, 3), (1.0, 3), (0.9, 0)])
def test_what_has_no_quantile_is_refused(probability: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student(probability, freedom)


@given(st.floats(0.5, 0.9999), st.integers(1, 40))
def test_the_tail_of_t_is_the_inverse_of_its_quantile(probability: float, freedom: int) -> None:
    assert student_beyond(student(probability, freedom), freedom) == pytest.approx(1.0 - probability, abs=1e-9)


@pytest.mark.parametrize(("value", "freedom"), [(-0.1, 3), (1.0, 0), (float("nan"), 0)])
def test_a_tail_that_is_none_is_refused(value: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no tail of t"):
        student_beyond(value, freedom)
