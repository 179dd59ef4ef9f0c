"""What the gate weighs, and what it says."""

from __future__ import annotations

from dataclasses import dataclass

from consistency.records.names import CaseStatus


@dataclass(frozen=True)
class GateCase:
    """What the gate needs of one case: its status and whether it was required."""

    case: str
    device: str
    status: CaseStatus
    required: bool = True
    reason: str = ""


@dataclass(frozen=True)
class GateOutcome:
    """``status`` is ``pass``, ``fail``, ``incomplete`` or ``error``; ``exit_code`` 0, 1, 3 or 2."""

    status: str
    exit_code: int
    reasons: tuple[str, ...]
