"""What is tried: faults × moments × links, one place to ask which combinations make sense.

A fault is one file in ``faults/`` that holds ``FAULT``; it is found by its name.
"""

from __future__ import annotations

import importlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.world import Evidence, World

MOMENTS = ("queued", "leasing", "deploying", "running", "collecting", "storing")
LINKS = ("local", "ssh", "adb")
#: A folder of this host has no cable, no power switch and no disk of its own.
FAR_LINKS = ("ssh", "adb")


def nothing(_: World) -> None:
    """Neither before the run nor at the moment."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong.

    ``arm`` prepares it before the run, ``strike`` makes it happen once the victim has reached the moment and returns
    when the victim may go on; ``after`` waits for what must have happened before the farm may end. ``proof`` fails
    unless it struck, and holds of no undisturbed run (see ``tests.chaos.proofs``). ``ends``: how the victim's job ends
    (pass, infra or crashed), told for each moment where they differ by ``but``. ``controller``: the command that
    drives the run is a process of its own. ``small_disk``: the device has a disk of its own. ``seconds``: how long the
    victim's runner may take. ``kind``: told where two faults are one to a handful.
    """

    words: str
    proof: Callable[[World, Evidence], None]
    arm: Callable[[World], None] = nothing
    strike: Callable[[World], None] = nothing
    after: Callable[[World], None] = nothing
    moments: Sequence[str] = MOMENTS
    links: Sequence[str] = LINKS
    ends: str = "pass"
    but: tuple[tuple[str, str], ...] = ()
    controller: bool = False
    small_disk: bool = False
    seconds: float = 60.0
    kind: str = ""

    def ending(self, moment: str) -> str:
        """How the victim's job ends when the fault strikes at ``moment``."""
        return dict(self.but).get(moment, self.ends)


@dataclass(frozen=True, order=True)
class Combination:
    """One fault at one moment over one kind of link."""

    fault: str
    moment: str
    link: str

    @property
    def id(self) -> str:
        """As pytest names it."""
        return f"{self.fault}-{self.moment}-{self.link}"

    def pairs(self) -> set[tuple[str, str]]:
        """The pairs of values it covers."""
        return set(combinations((self.fault, self.moment, self.link), 2))


def faults() -> dict[str, Fault]:
    """Every fault by the name of its file."""
    names = sorted(path.stem for path in (Path(__file__).parent / "faults").glob("*.py"))
    return {name: importlib.import_module(f"tests.chaos.faults.{name}").FAULT for name in names}


def all_combinations() -> list[Combination]:
    """Everything that makes sense, in a fixed order."""
    return [
        Combination(name, moment, link)
        for name, fault in faults().items()
        for moment in fault.moments
        for link in fault.links
    ]


def share(number: int, parts: int) -> list[Combination]:
    """The ``number``-th of ``parts`` shares of all combinations, counted from 1."""
    every = all_combinations()
    random.Random(parts).shuffle(every)  # in order, one part would have all of a slow link
    return sorted(every[number - 1 :: parts])


def kinds() -> dict[str, str]:
    """The kind of each fault; most are a kind of their own."""
    return {name: fault.kind or name for name, fault in faults().items()}


def chosen(count: int, seed: int) -> list[Combination]:
    """``count`` combinations: every kind of fault, those with least choice first, then what covers most new pairs."""
    left = all_combinations()
    random.Random(seed).shuffle(left)
    known = kinds()
    choices = Counter(known[entry.fault] for entry in left)
    picked: list[Combination] = []
    covered: set[tuple[str, str]] = set()
    while left and len(picked) < count:
        unseen = set(choices) - {known[entry.fault] for entry in picked}
        rank = {kind: -choices[kind] if kind in unseen else -len(left) for kind in choices}
        best = max(left, key=lambda entry: (rank[known[entry.fault]], len(entry.pairs() - covered)))
        left.remove(best)
        picked.append(best)
        covered |= best.pairs()
    return sorted(picked)
