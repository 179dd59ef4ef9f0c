"""Writes ``docs/faults.md`` from what `make chaos` recorded: ``python -m tests.chaos.table``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.chaos.scenario import MOMENTS, Combination, Fault, faults

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "build" / "chaos"
PAGE = REPOSITORY / "docs" / "faults.md"
NOT_RUN = "not run"
HEAD = """# Faults survived

`make chaos` breaks a farm with a real broker, real workers and real devices in every way below, at every moment of a
job's life, and writes this page from what happened. `make test` tries a seeded handful (`--chaos-seed N`).

Each run has four jobs on two devices; the fault is aimed at one of them, the victim. Afterwards, from what the store
and the devices themselves recorded:

- the fault struck: the store, the logs, the kernel or the device show what it did;
- every job ended exactly once, and its attempts tell the same story;
- no device ever had two runners at once (each takes a lock that the kernel drops with it);
- no attempt that lost its lease wrote a result;
- a healthy engine was never blamed for a fault of the farm, and a regression planted in another job was found;
- results are those of an undisturbed run, bit for bit;
- the victim was at work again, or had ended, within twice the time of a lease (10 s here, 20 s in earnest).

A cell says how the victim ended: *pass*; *infra*, when the device stays unusable; *crashed*, when the engine is to
blame. The number is the longest time until it was at work again, in seconds, over the links in the last column. A
dash means that the fault cannot strike at that moment.
"""


def record(entry: Combination, ends: str, seconds: float) -> None:
    """Keep what a combination gave."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{entry.id}.json").write_text(json.dumps({"ends": ends, "seconds": round(seconds, 1)}))


def forget(entry: Combination) -> None:
    """What a combination gave before says nothing of now."""
    (RESULTS / f"{entry.id}.json").unlink(missing_ok=True)


def columns() -> list[str]:
    """The head of the table."""
    return ["fault", *MOMENTS, "links"]


def page() -> str:
    """The whole page."""
    lines = [HEAD, f"| {' | '.join(columns())} |", f"|{'---|' * len(columns())}"]
    for name, fault in faults().items():
        cells = [cell(name, fault, moment) for moment in MOMENTS]
        lines.append(f"| {' | '.join([fault.words, *cells, ', '.join(fault.links)])} |")
    return "\n".join(lines) + "\n"


def cell(name: str, fault: Fault, moment: str) -> str:
    """What was seen over all links of a fault, or that it was not tried."""
    if moment not in fault.moments:
        return "–"
    paths = [RESULTS / f"{Combination(name, moment, link).id}.json" for link in fault.links]
    found = [json.loads(path.read_text()) for path in paths if path.is_file()]
    if len(found) < len(paths):
        return NOT_RUN
    return f"{fault.ending(moment)} {max(entry['seconds'] for entry in found)}"


def main() -> int:
    """Write the page; 1 while something was not tried or not survived."""
    text = page()
    PAGE.write_text(text)
    missing = text.count(f" {NOT_RUN} ")
    print(f"{PAGE.relative_to(REPOSITORY)}: {missing} cells not run or not survived" if missing else f"{PAGE}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
