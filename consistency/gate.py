"""The outcome of a gate from the statuses of its parts.

Exit codes, first that applies: 2 usage or configuration · 1 any ``fail``, ``crashed``, ``flaky``, required or not ·
3 any required item that was not shown to pass · 0 otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from consistency.records import GateCase, GateOutcome

RED = ("fail", "crashed", "flaky")
#: At most so many reasons of one kind; the rest is counted.
SHOWN = 10


def gate_outcome(
    cases: Sequence[GateCase],
    *,
    chip_pairs: Sequence[GateCase] = (),
    required_missing: Sequence[str] = (),
    unproved_strategies: Sequence[str] = (),
    usage_errors: Sequence[str] = (),
) -> GateOutcome:
    """Weigh everything a gate knows.

    ``required_missing`` required devices, cases or engines that were not tested (deselected ones too), in words
    with their next step. A gate in which no case passed has compared nothing and is never green.
    """
    if usage_errors:
        return GateOutcome("error", 2, tuple(usage_errors))
    items = (*cases, *chip_pairs)
    red = [item for item in items if item.status in RED]
    if red:
        return GateOutcome("fail", 1, _described(red))
    open_items = [item for item in items if item.required and item.status != "pass"]
    reasons = list(_described(open_items)) + list(required_missing)
    reasons += [f"strategy {name} was not proved" for name in unproved_strategies]
    if not any(case.status == "pass" for case in cases):
        reasons.append("nothing was compared")
    if reasons:
        return GateOutcome("incomplete", 3, tuple(reasons))
    return GateOutcome("pass", 0, (_counted(cases),))


def _described(items: Sequence[GateCase]) -> tuple[str, ...]:
    lines = [
        f"{item.case} on {item.device}: {item.status}" + (f": {item.reason}" if item.reason else "") for item in items
    ]
    if len(lines) > SHOWN:
        return (*lines[:SHOWN], f"and {len(lines) - SHOWN} more")
    return tuple(lines)


def _counted(cases: Sequence[GateCase]) -> str:
    counts = Counter(case.status for case in cases)
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
