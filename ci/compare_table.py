"""What ``lockstep compare`` says to people, in 80 columns: what fails comes first."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci.compare import Comparison
from consistency import words
from consistency.tensors import TensorVerdict

WIDTH = 80
#: So many layers of one status are shown; the rest is counted.
SHOWN = 20
_ORDER = ("fail", "missing", "not_compared", "extra", "not_observable", "pass")
#: Pairs less sure than this say so.
_SURE = 0.9
_MARKS = {
    "fail": ("FAIL", "bold red"),
    "missing": ("missing", "yellow"),
    "not_compared": ("n/c", "yellow"),
    "extra": ("extra", "yellow"),
    "not_observable": ("hidden", "yellow"),
    "pass": ("pass", "green"),
}
_HEADLINES = {
    "pass": ("PASS", "bold green"),
    "fail": ("FAIL", "bold red"),
    "incomplete": ("NOT COMPLETE", "bold yellow"),
}


def comparison_table(comparison: Comparison) -> str:
    """Text (with colours when stdout is a terminal)."""
    console = Console(highlight=False, width=WIDTH)
    with console.capture() as capture:
        for status in _ORDER:
            _group(console, [layer for layer in comparison.layers if layer.status == status])
        _summary(console, comparison)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _group(console: Console, layers: list[TensorVerdict]) -> None:
    # Within the failing ones, those that introduced an error come before those that inherit it.
    table = Table.grid(padding=0)
    table.add_column(width=8)
    table.add_column(overflow="fold", max_width=WIDTH - 8)
    for layer in sorted(layers, key=lambda layer: layer.introduced is False)[:SHOWN]:
        word, style = _MARKS[layer.status]
        table.add_row(Text(word, style=style), Text(f"{printable(layer.name)}{_numbers(layer)}"))
        if told := _pairing(layer):
            table.add_row("", Text(told))
        if layer.reason:
            table.add_row("", Text(printable(layer.reason)))
    if layers:
        console.print(table)
    if len(layers) > SHOWN:
        console.print(f"        and {len(layers) - SHOWN} more: {_MARKS[layers[0].status][0]}")


def _numbers(layer: TensorVerdict) -> str:
    """Largest error and its bound of what passes; what fails has its numbers in its reason."""
    found = layer.metrics
    if found is None or layer.status != "pass" or found.get("max_abs") is None:
        return ""
    text = f"  max {_number(found['max_abs'])}"
    return f"{text} of {_number(found['bound'])}" if layer.metric == "max_abs" else text


def _pairing(layer: TensorVerdict) -> str:
    """How a pair was found, where it is not by an equal name."""
    paired = layer.paired
    if paired is None or (paired.confidence >= _SURE and layer.name == layer.other):
        return ""
    return f"paired with {printable(layer.other)} by {printable(paired.by)} (confidence {paired.confidence:g})"


def _number(value: object) -> str:
    return words.number(value if isinstance(value, (int, float)) else None)


def _summary(console: Console, comparison: Comparison) -> None:
    counts = comparison.coverage
    first = [printable(layer.name) for layer in comparison.layers if layer.introduced]
    if first:
        more = f" and {len(first) - 3} more" if len(first) > 3 else ""
        console.print(Text(f"first deviating: {', '.join(first[:3])}{more}", overflow="fold"))
    console.print(
        f"coverage: {counts['compared']} of {counts['expected']} layers compared, {counts['missing']} missing in B, "
        f"{counts['extra']} only in B, {counts['not_compared']} n/c"
    )
    if counts["not_observable"]:
        console.print(f"        {counts['not_observable']} not observable: fused into others, which is not equal")
    for reason in comparison.reasons:
        console.print(f"        {reason}")
    word, style = _HEADLINES[comparison.status]
    tail = f" (profile {comparison.profile}, exit code {comparison.exit_code})"
    console.print(Text.assemble("verdict: ", (word, style), tail))


def printable(text: str) -> str:
    """Names come from files: what would move the cursor is shown as a code."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
