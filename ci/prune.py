"""What ``lockstep prune`` does: find what may go, tell, remove."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci.expectations import ExpectationFile
from engine.contract.errors import UsageError
from farm.config import load, nearest
from farm.inuse import alone_with
from farm.retention import AGES, Item, Rules, find_items
from farm.store import Store
from farm.store.evidence import read_evidence

UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}


@dataclass(frozen=True)
class Pruned:
    """What went, or would go; ``notes`` say what was left alone as a whole, and why."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    kept_back: tuple[tuple[Item, str], ...] = field(default=())


def age(text: str) -> float:
    """``30d``, ``12h``, ``2w`` or ``1y`` in seconds."""
    found = re.fullmatch(r"(\d{1,6})([hdwy])", text)
    if not found:
        raise UsageError(f"{text!r} is no age", hint="a number and h, d, w or y, for example 30d")
    return int(found[1]) * UNITS[found[2]]


def ages(kinds: Sequence[str], older_than: str | None, keep: Sequence[str]) -> dict[str, float]:
    """The ages by kind: the defaults, or ``older_than`` for all, then each ``KIND=AGE``; only ``kinds`` if given."""
    for kind in kinds:
        _known(kind)
    chosen = {kind: age(older_than) if older_than else default for kind, default in AGES.items()}
    for entry in keep:
        kind, _, text = entry.partition("=")
        _known(kind)
        chosen[kind] = age(text)
    return {kind: value for kind, value in chosen.items() if not kinds or kind in kinds}


def accepted_runs(root: Path) -> frozenset[str]:
    """The runs that reviewed expectations were accepted from."""
    files = sorted((root / "expectations").glob("*/*.yaml"))
    return frozenset(load(path, ExpectationFile).run for path in files)


def prune(rules: Rules, store: Store, *, out: Path, state: Path, cache: Path, dry_run: bool) -> Pruned:
    """Remove what ``rules`` let go, or only find it. The cache stays as it is while a gate or a sweep runs."""
    with alone_with(cache) as alone:
        evidence = read_evidence(store)
        free = alone and not evidence.anyone_active
        found = tuple(find_items(rules, store, evidence, out=out, state=state, cache=cache if free else None))
        notes = [] if free else ["a run is on its way: the cache was left alone (`lockstep runs --living`)"]
        if dry_run:
            return Pruned(found, tuple(notes))
        gone, kept = [], []
        for item in found:
            try:
                item.remove()
                gone.append(item)
            except OSError as error:
                kept.append((item, error.strerror or str(error)))
        if free and any(item.kind in ("jobs", "events") for item in gone):
            store.compact()
        return Pruned(tuple(gone), tuple(notes), tuple(kept))


def _known(kind: str) -> None:
    if kind not in AGES:
        raise UsageError(f"unknown kind {kind!r}: {nearest(kind, list(AGES))}", hint=f"kinds: {', '.join(AGES)}")
