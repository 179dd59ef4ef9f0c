"""The records that go into and come out of a comparison: small, frozen, without behaviour.

``ReferenceLayer`` and ``ObservedLayer`` are what was captured; ``Stats`` is measured on the device or
here; ``LayerVerdict`` and ``CaseVerdict`` are what is said about it. Digests are compared as text; a
digest of equal dtype and shape means equal bits.
"""

from consistency.records.capture import (
    BaseEvidence,
    NonFinite,
    ObservedLayer,
    PlainRun,
    ReferenceLayer,
    Scale,
    Stats,
    TaskResult,
)
from consistency.records.chips import BitGroup, BitIdentity, ChipLayer, ChipPairVerdict
from consistency.records.evidence import CaseEvidence
from consistency.records.expectation import Expectation, ExpectationOutcome
from consistency.records.gate import GateCase, GateOutcome
from consistency.records.names import (
    NOTE_ACCEPTED,
    NOTE_BASE_FAILS_TOO,
    NOTE_CHANGED,
    NOTE_GOLDEN_SUSPECT,
    NOTE_KNOWN_FAILURE,
    NOTE_KNOWN_FAILURE_PASSES,
    NOTE_NONDETERMINISTIC,
    NOTE_OBSERVER_EFFECT,
    NOTE_QUANTISATION_LOSS,
    CaseStatus,
    LayerStatus,
    Matched,
)
from consistency.records.quantisation import Column, Quantisation
from consistency.records.referee import LayerOpinion, SecondOpinion, Witnesses
from consistency.records.repeats import Floor, LayerRepeats, LayerRuns
from consistency.records.verdict import (
    AloneVerdict,
    CaseVerdict,
    ChangeSummary,
    Coverage,
    LayerVerdict,
    Metrics,
    RuleOutcome,
    Worst,
)

__all__ = [
    "NOTE_ACCEPTED",
    "NOTE_BASE_FAILS_TOO",
    "NOTE_CHANGED",
    "NOTE_GOLDEN_SUSPECT",
    "NOTE_KNOWN_FAILURE",
    "NOTE_KNOWN_FAILURE_PASSES",
    "NOTE_NONDETERMINISTIC",
    "NOTE_OBSERVER_EFFECT",
    "NOTE_QUANTISATION_LOSS",
    "AloneVerdict",
    "BaseEvidence",
    "BitGroup",
    "BitIdentity",
    "CaseEvidence",
    "CaseStatus",
    "CaseVerdict",
    "ChangeSummary",
    "ChipLayer",
    "ChipPairVerdict",
    "Column",
    "Coverage",
    "Expectation",
    "ExpectationOutcome",
    "Floor",
    "GateCase",
    "GateOutcome",
    "LayerOpinion",
    "LayerRepeats",
    "LayerRuns",
    "LayerStatus",
    "LayerVerdict",
    "Matched",
    "Metrics",
    "NonFinite",
    "ObservedLayer",
    "PlainRun",
    "Quantisation",
    "ReferenceLayer",
    "RuleOutcome",
    "Scale",
    "SecondOpinion",
    "Stats",
    "TaskResult",
    "Witnesses",
    "Worst",
]
