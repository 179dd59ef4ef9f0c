"""What the other referees say where a device disagrees with the golden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from consistency.records.capture import ObservedLayer, ReferenceLayer, Stats

OpinionStatus = Literal["golden_suspect", "golden_upheld", "undecided"]


@dataclass(frozen=True)
class Witnesses:
    """The traces of the other two referees, as far as a case needs them; all maps are by layer id.

    ``canonical`` and ``evaluator`` stand where the golden stands otherwise; the canonical fields of ``evaluator``
    compare canonical with the evaluator. ``evaluator_seen`` is the evaluator as if a device had shown it, compared
    with the golden. ``measured``, by id and digest, compares the device with canonical where it has other bits.
    ``lacking`` says why the evaluator has no opinion of a layer; ``name`` who the evaluator is.
    """

    canonical: Mapping[str, ReferenceLayer]
    evaluator: Mapping[str, ReferenceLayer] = field(default_factory=dict)
    evaluator_seen: Mapping[str, ObservedLayer] = field(default_factory=dict)
    measured: Mapping[tuple[str, str], Stats] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class LayerOpinion:
    """How far the device is from each referee at one layer; distances are the largest, ``None``: unknown.

    ``bound`` is the golden's; ``outvoted`` both others stand with the device, against the golden.
    """

    layer: str
    op: str
    golden: float | None
    canonical: float | None
    evaluator: float | None
    bound: float | None
    outvoted: bool
    reason: str


@dataclass(frozen=True)
class SecondOpinion:
    """What the referees together say of a case. ``golden_suspect``: every failure is the golden's alone."""

    status: OpinionStatus
    layers: tuple[LayerOpinion, ...]
    evaluator: str
    reason: str
