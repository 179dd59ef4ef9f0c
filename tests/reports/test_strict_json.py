from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import strict_json

TEXT = st.text(st.characters(exclude_categories=()))  # surrogates too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_for_a_script_comes_back(value: object) -> None:
    clean = strict_json.finite(value)
    text = strict_json.for_script(clean)
    assert not set(text) & set("<>&\u2028\u2029")
    text.encode("utf-8")
    assert strict_json.loads(text) == clean
    assert json.loads(text) == clean


@given(TEXT)
def test_text_survives_unchanged(text: str) -> None:
    assert strict_json.loads(strict_json.dumps({text: text})) == {text: text}


def test_only_numbers_become_null() -> None:
    value = {"NaN": math.nan, "BaNaNa_Infinity": [math.inf, "NaN", -math.inf, 1.5]}
    assert strict_json.finite(value) == {"NaN": None, "BaNaNa_Infinity": [None, "NaN", None, 1.5]}


def test_numbers_that_do_not_exist_are_an_error_in_text() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        strict_json.dumps({"a": math.nan})
