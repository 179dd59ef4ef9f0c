from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from farm.conditions import Conditions


def test_nothing_is_asked_by_default() -> None:
    assert Conditions().longest_wait == 0
    assert Conditions(governor="performance").longest_wait == 0
    assert Conditions(cool_to=35).longest_wait == 600


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cool_seconds": 60}, "give that too"),
        ({"cool_to": 5}, "greater than or equal to 15"),
        ({"cool_to": 396}, "less than or equal to 95"),
        ({"cool_to": 40, "cool_seconds": 0}, "greater than 0"),
        ({"governor": "$(reboot)"}, "should match pattern"),
        ({"cool": 40}, "Extra inputs"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Conditions(**asked)
