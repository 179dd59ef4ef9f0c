"""Accepted results, and what one makes of a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from consistency.records.names import CaseStatus


@dataclass(frozen=True)
class Expectation:
    """A reviewed result of one case on one chip and model.

    ``outputs`` and ``layers_digest`` are the accepted bits (``consistency.expectation.layers_digest``);
    ``max_scaled`` maps a failing layer to its extent at acceptance (``consistency.expectation.extent``);
    ``tasks`` names task checks accepted as failing; ``expires`` is an ISO date, the last day it holds.
    """

    case: str
    chip_model: str
    outputs: Mapping[str, str]
    layers_digest: str | None
    first_deviating: tuple[str, ...]
    max_scaled: Mapping[str, float]
    owner: str
    reason: str
    expires: str | None = None
    kind: Literal["accepted", "known_failure"] = "accepted"
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExpectationOutcome:
    """How an expectation bears on a verdict; ``status`` of the case afterwards and the note it earns.

    ``state`` is ``unchanged``, ``changed``, ``beyond``, ``expired``, ``known_failure``, ``known_failure_worse``
    or ``known_failure_passes``.
    """

    state: str
    status: CaseStatus
    note: str | None
    owner: str
    reason: str
    expires: str | None
    explanation: str
