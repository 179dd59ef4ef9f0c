"""What may go: each kind of evidence with its own age, failing runs kept longer, nothing that is still needed.

Needed is what belongs to a living run or an unfinished sweep, and what a reviewed expectation was accepted from.
An age counts from the last use: the entry's own time, or the newest job in the store that names it.
"""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from farm.store.database import Store
from farm.store.evidence import Evidence, delete_events, delete_run, old_events

DAY = 86400.0
FAILING_FACTOR = 3
"""Failing runs are kept so many times as long: somebody may still be looking into them."""
KEPT_RUNS = 10
TRASH = ".pruned-"

AGES: Mapping[str, float] = {
    "reports": 30 * DAY,
    "jobs": 90 * DAY,
    "events": 180 * DAY,
    "logs": 14 * DAY,
    "tensors": 30 * DAY,
    "references": 60 * DAY,
    "bundles": 30 * DAY,
    "exports": 30 * DAY,
    "mutants": 7 * DAY,
    "quantised": 60 * DAY,
}
"""Kinds of evidence and how long each is kept, in seconds; ``docs/sweeps.md`` says what each is."""
PLACES: Mapping[str, tuple[str, ...]] = {
    "tensors": ("blobs/*/*",),
    "references": ("references/*/*",),
    "bundles": ("builds/*", "sources/*"),
    "exports": ("exports/*",),
    "mutants": ("mutants/*",),
    "quantised": ("quantised/*",),
}
"""Where in the cache the entries of a kind lie."""


@dataclass(frozen=True)
class Rules:
    """How long each kind is kept (seconds), and how many of the newest runs stay whatever their age."""

    ages: Mapping[str, float] = field(default_factory=lambda: dict(AGES))
    keep_runs: int = KEPT_RUNS
    accepted: frozenset[str] = frozenset()

    def over(self, kind: str, last: float, now: float, *, failing: bool = False) -> bool:
        """True when something last used at ``last`` may go."""
        return now - last > self.ages[kind] * (FAILING_FACTOR if failing else 1)


@dataclass(frozen=True)
class Item:
    """One thing that may go; ``remove`` does it."""

    kind: str
    name: str
    size: int
    last: float
    remove: Callable[[], None]


def find_items(
    rules: Rules, store: Store, evidence: Evidence, *, out: Path, state: Path, cache: Path | None
) -> Iterator[Item]:
    """All that may go, kind by kind; ``cache`` is None while somebody uses it."""
    now = store.clock()
    if "reports" in rules.ages:
        yield from _reports(rules, out, now)
    going = _runs(rules, evidence, now) if "jobs" in rules.ages else []
    for run in going:
        yield Item("jobs", run, evidence.runs[run].size, evidence.runs[run].last, _deleter(store, run))
    if "events" in rules.ages:
        before = now - rules.ages["events"]
        count, size, last = old_events(store, before)
        if count:
            yield Item("events", f"{count} events of devices", size, last, lambda: delete_events(store, before))
    if "logs" in rules.ages:
        yield from _entries(rules, "logs", state.glob("logs/*.log"), {}, now)
    if cache is not None:
        uses = evidence.uses(cache, without=going)
        for kind in (kind for kind in PLACES if kind in rules.ages):
            found = (path for pattern in PLACES[kind] for path in cache.glob(pattern))
            yield from _entries(rules, kind, found, uses, now)


def _deleter(store: Store, run: str) -> Callable[[], None]:
    return lambda: delete_run(store, run)


def _runs(rules: Rules, evidence: Evidence, now: float) -> list[str]:
    """Ended runs past their age; a sweep goes with all its runs or not at all, a run with those that confirm it."""
    newest = sorted(evidence.runs.values(), key=lambda run: run.last, reverse=True)[: rules.keep_runs]
    stay = {run.id for run in newest} | rules.accepted
    groups: dict[str, list[str]] = {}
    for run in evidence.runs.values():
        groups.setdefault(run.part_of or run.id, []).append(run.id)
    going = []
    for members in groups.values():
        rows = [evidence.runs[member] for member in members]
        failing = any(row.failing for row in rows)
        if all(not row.living and row.id not in stay for row in rows) and rules.over(
            "jobs", max(row.last for row in rows), now, failing=failing
        ):
            going += members
    return going


def _reports(rules: Rules, out: Path, now: float) -> Iterator[Item]:
    latest = (out / "latest").resolve()
    folders = [path for path in out.glob("*") if path.is_dir() and not path.is_symlink()]
    reports = [(path, *_report(path)) for path in folders if not path.name.startswith(TRASH)]
    ours = sorted((entry for entry in reports if entry[1] > 0), key=lambda entry: -entry[1])
    for path, last, failing, runs in ours[rules.keep_runs :]:
        needed = path.resolve() == latest or not runs.isdisjoint(rules.accepted)
        if not needed and rules.over("reports", last, now, failing=failing):
            yield Item("reports", path.name, tree_size(path), last, _remover(path))
    yield from (Item("reports", path.name, tree_size(path), now, _remover(path)) for path in _trash(folders))


def _report(folder: Path) -> tuple[float, bool, set[str]]:
    """When the report in a folder was written (0: none is there), whether it failed, and the runs it speaks of."""
    documents = [folder / "sweep.json", folder / "verdict.json", *folder.glob("*/verdict.json")]
    last, failing, runs = 0.0, False, set()
    for path in documents:
        try:
            last = max(last, path.stat().st_mtime)
            document = json.loads(path.read_bytes())
            failing |= document["exit_code"] != 0
            runs.add(str(document["sweep"] if path.name == "sweep.json" else document["run"]["id"]))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError):
            failing = True  # what cannot be read is kept as long as what failed
    return last, failing, runs


def _entries(rules: Rules, kind: str, paths: Iterable[Path], uses: Mapping[Path, float], now: float) -> Iterator[Item]:
    for path in sorted(paths):
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            continue
        last = max(facts.st_mtime, uses.get(path, 0.0))
        if path.name.startswith(TRASH) or rules.over(kind, last, now):
            name = path.parent.name + "/" + path.name if kind == "references" else path.name
            yield Item(kind, name, tree_size(path), last, _remover(path))


def _trash(paths: Collection[Path]) -> Iterator[Path]:
    """What a prune that was killed had begun to remove."""
    return (path for path in paths if path.name.startswith(TRASH))


def _remover(path: Path) -> Callable[[], None]:
    return lambda: remove(path)


def remove(path: Path) -> None:
    """Delete a file or folder; a folder first loses its name, so that half of it is never taken for the whole."""
    if path.is_dir() and not path.is_symlink():
        trash = path if path.name.startswith(TRASH) else path.rename(path.with_name(f"{TRASH}{uuid4().hex}"))
        shutil.rmtree(trash)
    else:
        path.unlink(missing_ok=True)


def tree_size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; links are not followed."""
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        return facts.st_size
    return sum(tree_size(child) for child in path.iterdir())
