"""A sweep's verdict in a terminal of 80 columns."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_STYLES = {"pass": "green", "fail": "bold red", "incomplete": "yellow", "not tested": "yellow", "not judged": "yellow"}


def sweep_table(document: dict[str, Any]) -> str:
    """One line a part, what could not be tested and why, and the exit code."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("suite", "engine", "verdict", "cases"):
        table.add_column(name, overflow="fold")
    for part in document["parts"]:
        verdict = Text(part["status"], style=_STYLES.get(part["status"], ""))
        table.add_row(Text(part["suite"]), Text(part["engine"]), verdict, cases_words(part))
    with console.capture() as capture:
        console.print(table)
        for part in document["parts"]:
            if "reason" in part:
                words = f"{part['status']}: {part['engine']} on {part['suite']}: {part['reason']}"
                console.print(Text(words, style="yellow"))
                if part["next_step"]:
                    console.print(Text(f"  next: {part['next_step']}"))
        over = f", {document['taken_over']} taken over from earlier runs" if document["taken_over"] else ""
        console.print(f"\n{document['jobs']} jobs{over}; exit code {document['exit_code']}")
    return capture.get().rstrip("\n")


def cases_words(part: dict[str, Any]) -> str:
    """How many cases ended how: ``30 pass, 2 fail``."""
    return ", ".join(f"{count} {status}" for status, count in sorted(part.get("cases", {}).items())) or "-"
