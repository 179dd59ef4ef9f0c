"""Statuses and notes, spelled once."""

from __future__ import annotations

from typing import Literal

LayerStatus = Literal["pass", "fail", "not_observable", "missing", "not_compared"]
CaseStatus = Literal["pass", "fail", "crashed", "flaky", "unsupported", "not_compared", "inconclusive", "infra"]
Matched = Literal["canonical", "golden", "none"]

NOTE_CHANGED = "changed"
NOTE_NONDETERMINISTIC = "nondeterministic"
NOTE_OBSERVER_EFFECT = "observer_effect"
NOTE_ACCEPTED = "accepted"
NOTE_KNOWN_FAILURE = "known_failure"
NOTE_KNOWN_FAILURE_PASSES = "known_failure_passes"
#: Canonical and the ONNX reference evaluator agree with the device and not with the golden.
NOTE_GOLDEN_SUSPECT = "golden_suspect"
#: The quantised model is further from its FP32 one than the bounds allow, before any device has run.
NOTE_QUANTISATION_LOSS = "quantisation_loss"
#: BASE fails at the same first layer on the same device: the commit is not the cause.
NOTE_BASE_FAILS_TOO = "base_fails_too"
