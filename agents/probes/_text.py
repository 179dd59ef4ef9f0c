"""What all parsers share: lines, numbers and words out of text that nobody vouches for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

Json = int | float | str | bool | None
Flat = dict[str, Json]

#: A device may print anything: no text taken from it is longer.
LONGEST = 200


@dataclass(frozen=True)
class Unknown:
    """No reading, and why: an absent value is never a number."""

    reason: str


def lines(text: str) -> list[str]:
    """Lines without carriage returns (old terminals add one or two) and without blanks at the ends; no empty ones.

    A device tree's strings end with NUL: that is an end of line too.
    """
    stripped = (line.strip("\r\t ") for line in text.replace("\0", "\n").split("\n"))
    return [line for line in stripped if line]


def whole(text: str) -> int | None:
    """A whole number that is all there is to read, whatever its line ended with; else None."""
    found = re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip())
    return int(found[0]) if found else None


def decimal(text: str) -> float | None:
    """A finite number that is all there is to read; else None."""
    found = re.fullmatch(r"[+-]?[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,3})?", text.strip())
    value = float(found[0]) if found else math.nan
    return value if math.isfinite(value) else None


def pairs(found: Iterable[str], separator: str) -> dict[str, str]:
    """``key SEPARATOR value`` lines; of a key that comes twice the first."""
    result: dict[str, str] = {}
    for line in found:
        key, split, value = line.partition(separator)
        if split:
            result.setdefault(key.strip(), value.strip())
    return result


def sections(text: str, marker: str) -> dict[str, list[str]]:
    """Lines below ``MARKERname`` lines, by name; what stands before the first belongs to nobody."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines(text):
        if line.startswith(marker):
            current = found.setdefault(line[len(marker) :], [])
        else:
            current.append(line)
    return found


def words(text: str) -> str:
    """Text of a device as one short printable line."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * LONGEST])
    return " ".join(printable.split())[:LONGEST]


def refusal(text: str) -> str | None:
    """Why a file or a service gave nothing, in the project's words; None when ``text`` reads like an answer."""
    lowered = text.lower()
    for told, reason in _REFUSALS.items():
        if told in lowered:
            return reason
    return None


_REFUSALS = {
    "permission denied": "permission denied",
    "permission denial": "permission denied",
    "operation not permitted": "permission denied",
    "can't find service": "the service is not there",
    "service not found": "the service is not there",
    "failed to dump": "the service did not answer",
    "dump timed out": "the service did not answer",
    "timed out": "the service did not answer",
    "not found": "no such command",
    "inaccessible": "no such command",
}
