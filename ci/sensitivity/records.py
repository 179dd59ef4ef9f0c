"""What the pilot records of each execution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """One execution judged by everyone. ``kind`` and ``layer`` are empty of a benign one.

    ``change`` is the largest change of a final output, of that output's largest value; ``differs``: some bit differs.
    ``failed`` and ``exact`` map a judge to whether it found something, and to whether it named the broken layer and
    no other. ``note`` says in words why ours missed it or named another layer.
    """

    subject: str
    engine: str
    input: int
    kind: str
    layer: str
    change: float
    differs: bool
    failed: Mapping[str, bool]
    exact: Mapping[str, bool]
    note: str = ""


@dataclass(frozen=True)
class ArrayTrial:
    """One mutation of a captured array, judged by everyone."""

    subject: str
    kind: str
    layer: str
    failed: Mapping[str, bool]
    note: str = ""


@dataclass(frozen=True)
class Pilot:
    """All trials. ``floors`` maps a subject to the largest change that a healthy engine showed."""

    seed: int
    quick: bool
    judges: tuple[str, ...]
    mutants: tuple[Trial, ...]
    benign: tuple[Trial, ...]
    arrays: tuple[ArrayTrial, ...]
    floors: Mapping[str, float]
    versions: Mapping[str, str]
    seconds: float

    def effective(self, trial: Trial) -> bool:
        """Whether a mutant changes a final output by more than any healthy engine did."""
        return trial.change > self.floors[trial.subject]


def document(pilot: Pilot) -> dict[str, Any]:
    """``pilot`` for strict JSON: a change without a number (NaN or infinity came out) is ``null``."""
    told = asdict(pilot)
    for trial in (*told["mutants"], *told["benign"]):
        if not math.isfinite(trial["change"]):
            trial["change"] = None
    return told
