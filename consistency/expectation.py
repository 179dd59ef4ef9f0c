"""Accepted results: what a reviewed file may say about a verdict, and nothing more.

An **accepted** result stands for its exact bits: while they are unchanged the case passes whatever the golden
says; other bits within the profile's bounds are a change worth a note; beyond them it fails. A **known
failure** passes while it fails at the recorded layers by no more than the recorded extent. Both end with
their expiry date. Values that are no number have no extent: a known NaN is accepted by its bits only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal

from consistency.records import (
    NOTE_ACCEPTED,
    NOTE_CHANGED,
    NOTE_KNOWN_FAILURE,
    NOTE_KNOWN_FAILURE_PASSES,
    CaseStatus,
    CaseVerdict,
    Expectation,
    ExpectationOutcome,
    LayerVerdict,
)
from consistency.thresholds.profile import INTEGER_TYPES


def layers_digest(layers: Mapping[str, str]) -> str | None:
    """One digest (32 hex digits) for the digests of all layers, whatever their order; ``None`` for no layer."""
    if not layers:
        return None
    text = json.dumps(sorted(layers.items()), ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def observed_digests(layers: Sequence[LayerVerdict]) -> dict[str, str]:
    """Layer id → digest of the layers that were seen."""
    return {layer.id: layer.observed.digest for layer in layers if layer.observed is not None}


def extent(layer: LayerVerdict) -> float | None:
    """How far a layer is off (``extent_of``); ``None`` where that is no number: another shape, non-finite values."""
    metrics = layer.metrics
    if metrics is None or layer.metric in _NO_EXTENT:
        return None
    return extent_of(
        layer.observed.dtype if layer.observed else "",
        max_abs=metrics.max_abs,
        scaled_p999=metrics.scaled_p999,
        scaled_rms=metrics.scaled_rms,
        rmse=metrics.rmse,
    )


def extent_of(
    dtype: str, *, max_abs: float | None, scaled_p999: float | None, scaled_rms: float | None, rmse: float | None
) -> float | None:
    """How far a layer is off, in a unit that does not depend on the profile or on which rule failed.

    Floating point: ``max_abs`` over the golden's 99.9th percentile (its RMS, or 1, where that is zero).
    Integers: RMSE in LSB, which grows with the number of differing elements and with their size.
    """
    if max_abs is None:
        return None
    if dtype in INTEGER_TYPES:
        return rmse
    return next(value for value in (scaled_p999, scaled_rms, max_abs) if value is not None)


_NO_EXTENT = frozenset({"shape", "dtype", "nonfinite", "nonfinite_mismatch"})


def accept(
    verdict: CaseVerdict,
    *,
    chip_model: str,
    owner: str,
    reason: str,
    expires: str | None = None,
    kind: Literal["accepted", "known_failure"] = "accepted",
) -> Expectation:
    """The expectation that accepts what ``verdict`` observed. ``ValueError`` when it observed nothing.

    A known failure is recorded with its first deviating layers and final outputs; what lies between inherits.
    """
    if not owner or not reason:
        raise ValueError("an accepted result needs an owner and a reason")
    outputs = observed_digests(verdict.outputs)
    if not outputs or verdict.coverage.paired == 0:
        raise ValueError("nothing was compared, so there is nothing to accept")
    recorded = _recorded(verdict.layers, verdict.outputs, verdict.first_deviating)
    return Expectation(
        case=verdict.case,
        chip_model=chip_model,
        outputs=outputs,
        layers_digest=layers_digest(observed_digests(verdict.layers)),
        first_deviating=verdict.first_deviating,
        max_scaled={name: value for name, value in recorded.items() if value is not None},
        owner=owner,
        reason=reason,
        expires=expires,
        kind=kind,
        tasks=tuple(task.name for task in verdict.tasks if task.status == "fail"),
    )


def apply_expectation(
    expectation: Expectation,
    status: CaseStatus,
    *,
    layers: Sequence[LayerVerdict],
    outputs: Sequence[LayerVerdict],
    first_deviating: Sequence[str],
    failing_tasks: Sequence[str],
    today: str,
) -> ExpectationOutcome:
    """What ``expectation`` makes of a case judged ``status``; ``today`` is an ISO date.

    Only ``pass`` and ``fail`` can be changed: an expectation never speaks for a run that crashed, varied or
    compared nothing.
    """
    if _expired(expectation.expires, today):
        return _outcome(
            expectation,
            "expired",
            "fail" if status in ("pass", "fail") else status,
            None,
            f"the expectation of {expectation.owner} expired on {expectation.expires}: review the result, then accept "
            "it again or delete the file",
        )
    new_tasks = sorted(set(failing_tasks) - set(expectation.tasks))
    unchanged = _unchanged(expectation, layers, outputs)
    if expectation.kind == "known_failure":
        return _known_failure(expectation, status, layers, outputs, first_deviating, new_tasks, unchanged=unchanged)
    if unchanged and status in ("pass", "fail") and not new_tasks:
        why = f"the bits that {expectation.owner} accepted: {expectation.reason}"
        return _outcome(expectation, "unchanged", "pass", NOTE_ACCEPTED, why)
    if status == "pass":
        why = "other bits than the accepted ones, within bounds"
        return _outcome(expectation, "changed", "pass", NOTE_CHANGED, why)
    if new_tasks:
        why = f"task {', '.join(new_tasks)} fails, which was not accepted"
    else:
        why = "other bits than the accepted ones, and not within bounds"
    return _outcome(expectation, "beyond", status, None, why)


def _known_failure(
    expectation: Expectation,
    status: CaseStatus,
    layers: Sequence[LayerVerdict],
    outputs: Sequence[LayerVerdict],
    first_deviating: Sequence[str],
    new_tasks: Sequence[str],
    *,
    unchanged: bool,
) -> ExpectationOutcome:
    if status == "pass":
        why = f"a known failure of {expectation.owner} passes now: delete its expectation"
        return _outcome(expectation, "known_failure_passes", "pass", NOTE_KNOWN_FAILURE_PASSES, why)
    if status != "fail":
        return _outcome(expectation, "known_failure", status, None, f"the known failure could not be judged: {status}")
    if unchanged and not new_tasks:
        worse = None
    elif new_tasks:
        worse = f"task {', '.join(new_tasks)} fails, which it did not"
    else:
        worse = _worse(expectation, layers, outputs, first_deviating)
    if worse:
        why = f"not the known failure of {expectation.owner}: {worse}"
        return _outcome(expectation, "known_failure_worse", "fail", None, why)
    why = f"known failure of {expectation.owner}: {expectation.reason}"
    return _outcome(expectation, "known_failure", "pass", NOTE_KNOWN_FAILURE, why)


def _worse(
    expectation: Expectation,
    layers: Sequence[LayerVerdict],
    outputs: Sequence[LayerVerdict],
    first_deviating: Sequence[str],
) -> str | None:
    elsewhere = [name for name in first_deviating if name not in expectation.first_deviating]
    if elsewhere:
        recorded = ", ".join(f"`{name}`" for name in expectation.first_deviating) or "no layer"
        return f"it now starts at `{elsewhere[0]}`, recorded is {recorded}"
    for name, value in _recorded(layers, outputs, first_deviating).items():
        limit = expectation.max_scaled.get(name)
        if value is None:
            return f"`{name}` has no measurable extent, and its bits are not the recorded ones"
        if limit is None:
            return f"`{name}` fails, which was not recorded as failing"
        if value > limit:
            return f"`{name}` has a scaled error of {value:.4g}, recorded {limit:.4g}"
    return None


def _recorded(
    layers: Sequence[LayerVerdict], outputs: Sequence[LayerVerdict], first_deviating: Sequence[str]
) -> dict[str, float | None]:
    """Extents of the first deviating layers and of the failing outputs (the larger where both judge one)."""
    wanted = set(first_deviating)
    chosen = [layer for layer in layers if layer.id in wanted] + [out for out in outputs if out.status == "fail"]
    extents: dict[str, float | None] = {}
    for layer in chosen:
        value, before = extent(layer), extents.get(layer.id, 0.0)
        extents[layer.id] = None if value is None or before is None else max(value, before)
    return extents


def _unchanged(expectation: Expectation, layers: Sequence[LayerVerdict], outputs: Sequence[LayerVerdict]) -> bool:
    """Outputs have the accepted bits, and so have the layers where both sides know theirs."""
    if not expectation.outputs or observed_digests(outputs) != dict(expectation.outputs):
        return False
    now = layers_digest(observed_digests(layers))
    return expectation.layers_digest is None or now is None or now == expectation.layers_digest


def _expired(expires: str | None, today: str) -> bool:
    return expires is not None and date.fromisoformat(today) > date.fromisoformat(expires)


def _outcome(
    expectation: Expectation, state: str, status: CaseStatus, note: str | None, explanation: str
) -> ExpectationOutcome:
    return ExpectationOutcome(
        state=state,
        status=status,
        note=note,
        owner=expectation.owner,
        reason=expectation.reason,
        expires=expectation.expires,
        explanation=explanation,
    )
