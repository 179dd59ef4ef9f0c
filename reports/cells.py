"""How one layer on one chip looks in the heat map: a class of colour and three marks, in two characters.

The map of 3,000 layers on 6 chips is so 36 kB; the numbers behind a cell are read when somebody asks for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

#: Classes of colour by hexadecimal digit; ``rN`` is the decade of the scaled error, from below 1e-8 to 1 and more.
CLASSES = ("canonical", "golden", *(f"r{step}" for step in range(10)), "nonfinite", "hidden", "missing", "unknown")
STEPS = 10

#: Marks, summed up in the second hexadecimal digit.
CANONICAL, FAILS, INTRODUCED = 1, 2, 4

#: A layer that the table does not have for this chip.
ABSENT = ".."


def cell(
    status: str | None,
    matched: str | None,
    introduced: object,
    numbers: tuple[float | None, float | None],
    nonfinite: Sequence[int | None],
) -> str:
    """Two hexadecimal digits: class and marks. ``numbers`` are ``scaled_rms`` and ``max_abs``."""
    if status is None:
        return ABSENT
    kind = _class(status, matched, numbers, any(nonfinite))
    shown = kind not in ("hidden", "missing", "nonfinite", "unknown")
    marks = (
        (CANONICAL if shown and matched == "canonical" else 0)
        + (FAILS if status == "fail" else 0)
        + (INTRODUCED if introduced else 0)
    )
    return f"{_DIGITS[kind]}{marks:x}"


_DIGITS = {kind: f"{place:x}" for place, kind in enumerate(CLASSES)}


def _class(status: str, matched: str | None, numbers: tuple[float | None, float | None], nonfinite: Any) -> str:
    """The loudest of what applies; no error at all is a class of its own, its logarithm does not exist."""
    scaled, largest = numbers
    if status in ("not_observable", "missing"):
        return "hidden" if status == "not_observable" else "missing"
    if nonfinite:
        return "nonfinite"
    if status == "not_compared":
        return "unknown"
    if matched == "golden" or largest == 0 or (scaled is not None and scaled <= 0):
        return "golden"
    if scaled is None:
        return "canonical" if matched == "canonical" else "unknown"
    return f"r{max(0, min(STEPS - 1, math.floor(math.log10(scaled)) + STEPS - 1))}"
