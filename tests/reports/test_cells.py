from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.cells import ABSENT, CANONICAL, CLASSES, FAILS, INTRODUCED, cell
from reports.layers import MATCHES, STATUSES

FINE = (0, 0, 0)


def seen(text: str) -> tuple[str, int]:
    return CLASSES[int(text[0], 16)], int(text[1], 16)


@pytest.mark.parametrize(
    ("status", "matched", "numbers", "nonfinite", "kind", "marks"),
    [
        ("pass", "canonical", (2e-6, 1e-6), FINE, "r3", CANONICAL),
        ("pass", "canonical", (None, None), FINE, "canonical", CANONICAL),
        ("pass", "golden", (0.0, 0.0), FINE, "golden", 0),
        ("pass", "none", (0.0, 0.0), FINE, "golden", 0),
        ("pass", "none", (1e-12, 1e-12), FINE, "r0", 0),
        ("fail", "none", (0.31, 0.7), FINE, "r8", FAILS),
        ("fail", "none", (1e30, 1e30), FINE, "r9", FAILS),
        ("fail", "none", (None, None), (4, 0, 0), "nonfinite", FAILS),
        ("pass", "none", (0.0, 0.0), (0, 0, 1), "nonfinite", 0),
        ("pass", "none", (None, 1.0), FINE, "unknown", 0),
        ("not_compared", "canonical", (1e-3, 1.0), FINE, "unknown", 0),
        ("not_observable", "none", (None, None), (None, None, None), "hidden", 0),
        ("missing", "none", (None, None), (None, None, None), "missing", 0),
    ],
)
def test_the_loudest_of_what_applies_is_shown(
    status: str,
    matched: str,
    numbers: tuple[float | None, float | None],
    nonfinite: tuple[int | None, int | None, int | None],
    kind: str,
    marks: int,
) -> None:
    assert seen(cell(status, matched, None, numbers, nonfinite)) == (kind, marks)


def test_a_first_deviating_layer_is_marked() -> None:
    assert seen(cell("fail", "none", True, (0.1, 0.1), FINE)) == ("r8", FAILS + INTRODUCED)


def test_a_layer_that_the_table_lacks_is_no_layer_that_agrees() -> None:
    assert cell(None, None, None, (None, None), (None, None, None)) == ABSENT


ANY = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(
    status=st.sampled_from(STATUSES),
    matched=st.sampled_from((*MATCHES, None)),
    introduced=st.sampled_from((None, False, True)),
    numbers=st.tuples(ANY, ANY),
    nonfinite=st.tuples(*[st.none() | st.integers(0, 2**62)] * 3),
)
def test_whatever_a_table_holds_two_digits_tell_it(
    status: str,
    matched: str | None,
    introduced: bool | None,
    numbers: tuple[float | None, float | None],
    nonfinite: tuple[int | None, int | None, int | None],
) -> None:
    kind, marks = seen(cell(status, matched, introduced, numbers, nonfinite))
    assert bool(marks & FAILS) == (status == "fail")
    assert bool(marks & INTRODUCED) == bool(introduced)
    if kind.startswith("r"):
        scaled = numbers[0]
        assert scaled is not None
        decade = int(kind[1])
        assert decade == min(9, max(0, math.floor(math.log10(scaled)) + 9))
