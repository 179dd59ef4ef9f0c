"""Text: how many characters must be inserted, deleted or replaced."""

from __future__ import annotations


def edit_distance(got: str, ref: str) -> int:
    """Levenshtein distance in Unicode code points. Source: R. Wagner, M. Fischer, J. ACM 21 (1974)."""
    if len(got) < len(ref):
        got, ref = ref, got
    row = list(range(len(ref) + 1))
    for at, one in enumerate(got, start=1):
        diagonal, row[0] = row[0], at
        for there, other in enumerate(ref, start=1):
            diagonal, row[there] = row[there], min(row[there] + 1, row[there - 1] + 1, diagonal + (one != other))
    return row[-1]


def error_rate(got: str, ref: str) -> float:
    """Edits for each character of ``ref``; the number of edits where ``ref`` is empty."""
    return edit_distance(got, ref) / max(1, len(ref))
