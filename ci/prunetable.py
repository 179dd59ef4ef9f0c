"""What was pruned, in a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.prune import Pruned
from farm.progress import duration
from farm.retention import FAILING_FACTOR, Item, Rules

MOST = 10


def prune_table(pruned: Pruned, rules: Rules, now: float, *, dry_run: bool) -> str:
    """One line a kind; with ``dry_run`` each thing that would go as well, the first of many."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kind", no_wrap=True)
    table.add_column("would go" if dry_run else "gone", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("kept for", overflow="fold")
    for kind, limit in rules.ages.items():
        items = [item for item in pruned.items if item.kind == kind]
        longer = f", failing {_age(FAILING_FACTOR * limit)}" if kind in ("reports", "jobs") else ""
        table.add_row(kind, str(len(items)), size(sum(item.size for item in items)), _age(limit) + longer)
    with console.capture() as capture:
        if dry_run:
            for kind in rules.ages:
                _list(console, [item for item in pruned.items if item.kind == kind], now)
        console.print(table)
        for item, reason in pruned.kept_back:
            console.print(Text(f"could not remove {item.kind} {item.name}: {reason}", style="yellow"))
        for note in pruned.notes:
            console.print(Text(f"note: {note}", style="dim"))
        total = size(sum(item.size for item in pruned.items))
        console.print(f"would free {total}; nothing was removed" if dry_run else f"freed {total}")
    return capture.get().rstrip("\n")


def size(count: int) -> str:
    """Bytes as people say them."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def _list(console: Console, items: list[Item], now: float) -> None:
    for item in sorted(items, key=lambda item: item.last)[:MOST]:
        words = f"{item.kind} {item.name}, {size(item.size)}, last used {duration(now - item.last)} ago"
        console.print(Text(words, overflow="ellipsis"), no_wrap=True)
    if len(items) > MOST:
        console.print(f"… and {len(items) - MOST} more {items[0].kind}")


def _age(seconds: float) -> str:
    return f"{seconds / 86400:g} days"
