"""The verdict in a terminal of 80 columns: headline, matrix chip × case, failures, what was not tested."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_MARKS = {
    "pass": ("pass", "green"),
    "fail": ("FAIL", "bold red"),
    "crashed": ("CRASH", "bold red"),
    "flaky": ("FLAKY", "bold red"),
    "unsupported": ("unsup", "yellow"),
    "not_compared": ("n/c", "yellow"),
    "inconclusive": ("incon", "yellow"),
    "infra": ("infra", "yellow"),
}
_HEADLINES = {
    "pass": ("PASS", "bold green"),
    "fail": ("FAIL", "bold red"),
    "incomplete": ("NOT COMPLETE", "bold yellow"),
    "error": ("ERROR", "bold red"),
}
_MOST = 12


def verdict_table(document: dict[str, Any]) -> str:
    """Text (with colours when stdout is a terminal) for the end of ``lockstep gate``."""
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(_matrix(document))
        _failures(console, document)
        _changes(console, document)
        _not_tested(console, document)
        _coverage(console, document)
        word, style = _HEADLINES[document["status"]]
        line = Text("verdict: ") + Text(word, style=style) + Text(f" (exit code {document['exit_code']})")
        console.print(line)
    return capture.get().rstrip("\n")


def _matrix(document: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("device", no_wrap=True)
    cases = list(dict.fromkeys(entry["case"] for entry in document["cases"]))
    for case in cases:
        table.add_column(case.replace("-", "\n", 1) if len(cases) > 3 else case)
    cells = {(entry["device"], entry["case"]): entry for entry in document["cases"]}
    for device in document["devices"]:
        row: list[Text] = []
        for case in cases:
            entry = cells.get((device["name"], case))
            row.append(_cell(entry))
        table.add_row(Text(device["name"]), *row)
    return table


def _cell(entry: dict[str, Any] | None) -> Text:
    if entry is None:
        return Text("-", style="dim")
    word, style = _MARKS[entry["status"]]
    return Text(word + ("*" if entry["notes"] else ""), style=style)


def _failures(console: Console, document: dict[str, Any]) -> None:
    """Failures, the same layer on several devices told once."""
    together: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for entry in document["cases"]:
        if entry["status"] != "pass":
            key = (entry["status"], entry["case"], entry["first_deviating_layer"] or entry["reason"])
            together.setdefault(key, []).append(entry)
    for (status, case, _), entries in list(together.items())[:_MOST]:
        word, style = _MARKS[status]
        devices = ", ".join(entry["device"] for entry in entries)
        console.print(Text(f"\n{word} ", style=style) + Text(f"{case} on {devices}", style="bold"))
        console.print(Text(f"  {entries[0]['reason']}"))
    if len(together) > _MOST:
        console.print(f"\n… and {len(together) - _MOST} more, all in the report")


def _changes(console: Console, document: dict[str, Any]) -> None:
    noted: dict[str, list[str]] = {}
    for entry in document["cases"]:
        for note in entry["notes"]:
            noted.setdefault(note, []).append(f"{entry['case']} on {entry['device']}")
    for note, places in noted.items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        console.print(Text(f"* {note.replace('_', ' ')}: {', '.join(places[:3])}{more}"))


def _not_tested(console: Console, document: dict[str, Any]) -> None:
    together: dict[tuple[str, str, str, bool], list[str]] = {}
    for entry in document["not_tested"]:
        key = (entry["kind"], entry["reason"], entry["next_step"], entry["required"])
        together.setdefault(key, []).append(entry["name"])
    for (kind, reason, next_step, required), names in together.items():
        style = "yellow" if required else "dim"
        console.print(Text(f"not tested: {kind} {', '.join(names)}: {reason}", style=style))
        if required and next_step:
            console.print(Text(f"  next: {next_step}", style=style))


def _coverage(console: Console, document: dict[str, Any]) -> None:
    found = document["coverage"]
    identity = document["bit_identity"]
    same = sum(entry["identical_layers"] for entry in identity)
    total = sum(entry["total_layers"] for entry in identity)
    console.print(
        f"\nlayers compared {found['layers_paired']} of {found['layers_expected']}"
        f" ({found['layers_not_observable']} not observable);"
        f" devices tested {found['devices_tested']}, {found['devices_required']} required"
        f" ({found['devices_real']} real, {found['devices_emulated']} emulated)"
    )
    console.print(f"layers with the same bits on every device: {same} of {total}")
    for note in document["notes"]:
        console.print(Text(f"note: {note}", style="dim"))
