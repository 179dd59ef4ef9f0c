"""The verdict of one case on one device.

The plain run's outputs are always judged. Instrumented layers localise; they also gate where the instrumented
and the plain outputs have the same bits, be it only when a few layers are looked at together. Elsewhere a layer
alone on the golden's inputs decides for itself. When BASE fails at the same first layer the status stays ``fail``
with the note ``base_fails_too``, and the reason says that this commit is not the cause: only a reviewed
expectation turns a failure green, otherwise a broken BASE would wave every later regression through. A failure that
is the golden's alone (``consistency.second``) is ``inconclusive``: it blames no commit and passes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from consistency import words
from consistency.changes import summarise_changes
from consistency.expectation import apply_expectation
from consistency.explain import Findings, explain
from consistency.judge_layers import JudgedLayers, coverage, judge_layers, judge_outputs
from consistency.layer_repeats import assess_layer_repeats
from consistency.records import (
    NOTE_BASE_FAILS_TOO,
    NOTE_CHANGED,
    NOTE_GOLDEN_SUSPECT,
    NOTE_NONDETERMINISTIC,
    NOTE_OBSERVER_EFFECT,
    CaseEvidence,
    CaseStatus,
    CaseVerdict,
    ChangeSummary,
    ExpectationOutcome,
    LayerVerdict,
    ReferenceLayer,
    Worst,
)
from consistency.repeats import Repeats, assess_repeats
from consistency.second import second_opinion
from consistency.thresholds import profile

_BROKEN = ("fail", "crashed", "flaky")


def judge_case(evidence: CaseEvidence) -> CaseVerdict:
    """Judge one case that ran to its end. ``ValueError``: unknown profile, or a reference without outputs."""
    if not any(layer.final for layer in evidence.reference):
        raise ValueError(f"the reference of case {evidence.case!r} marks no final output")
    if evidence.expectation is not None and evidence.expectation.case != evidence.case:
        raise ValueError(f"the expectation is of case {evidence.expectation.case!r}, not {evidence.case!r}")
    rules, base = profile(evidence.profile), evidence.base
    outputs = judge_outputs(rules, evidence.reference, evidence.outputs, base.outputs if base else {})
    layers = judge_layers(
        rules,
        evidence.reference,
        evidence.observed,
        evidence.outputs,
        evidence.level,
        {**base.outputs, **base.layers} if base else {},
        evidence.alone,
    )
    observer = observer_effect(evidence)
    repeats = assess_repeats(rules, evidence.reference, evidence.outputs, evidence.plain_runs, evidence.noise)
    findings = Findings(
        outputs=outputs.layers,
        layers=layers.layers,
        first=_first(layers, outputs),
        layers_gate=_bits_agree(evidence),
        observer=observer,
        repeats=repeats,
        tasks=evidence.tasks,
        coverage=coverage(layers.layers),
        direct=evidence.direct,
        inner=assess_layer_repeats(rules, evidence.reference, evidence.layer_runs, evidence.layers_ran),
    )
    if evidence.witnesses is not None:
        opinion = second_opinion(rules, evidence.reference, findings.deciding, evidence.witnesses)
        findings = replace(findings, opinion=opinion)
    return _combine(evidence, findings, layers)


def not_run(
    case: str,
    device: str,
    profile_name: str,
    reference: Sequence[ReferenceLayer],
    status: CaseStatus,
    reason: str,
    *,
    base_status: str | None = None,
) -> CaseVerdict:
    """The verdict of a case without a result (``crashed``, ``unsupported``, ``infra``, …).

    Nothing was compared, so it is never a pass. A crash that BASE shares is noted as not this commit's.
    """
    if status == "pass":
        raise ValueError("a case that did not run cannot pass")
    layers = tuple(
        LayerVerdict(layer.id, index, layer.op, "not_compared", reason=f"the case did not run: {status}")
        for index, layer in enumerate(reference)
    )
    shared = status in _BROKEN and base_status == status
    return CaseVerdict(
        case=case,
        device=device,
        profile=profile_name,
        status=status,
        notes=(NOTE_BASE_FAILS_TOO,) if shared else (),
        reason=f"{reason}; base {status} too, so this commit is not the cause" if shared else reason,
        first_deviating=(),
        worst=None,
        coverage=coverage(layers),
        changed=ChangeSummary("none", reason="the case did not run"),
        expectation=None,
        layers=layers,
        outputs=(),
    )


def observer_effect(evidence: CaseEvidence) -> bool:
    """Whether dumping the layers changed an output that is stable otherwise."""
    instrumented = evidence.instrumented_outputs
    if instrumented is None or not evidence.plain_runs:
        return False
    for name, digest in instrumented.items():
        plain = {run.outputs[name] for run in evidence.plain_runs if name in run.outputs}
        if len(plain) == 1 and digest not in plain:
            return True
    return False


def _bits_agree(evidence: CaseEvidence) -> bool:
    """Instrumented and plain outputs are bit-equal, so that instrumented layers may gate."""
    instrumented = evidence.instrumented_outputs
    if instrumented is None:
        return False
    plain = [dict(run.outputs) for run in evidence.plain_runs] or [{out.id: out.digest for out in evidence.outputs}]
    return all(dict(instrumented) == outputs for outputs in plain)


def _first(layers: JudgedLayers, outputs: JudgedLayers) -> tuple[str, ...]:
    """First deviating layers; the outputs themselves where no instrumented layer shows the failure."""
    return layers.frontier.introduced or outputs.frontier.introduced


def _combine(evidence: CaseEvidence, findings: Findings, judged: JudgedLayers) -> CaseVerdict:
    status = _numbers_status(findings)
    expectation = _expectation(evidence, findings, status)
    if expectation is not None:
        status = expectation.status
    overdue = expectation is not None and expectation.state == "expired"
    if status == "fail" and findings.golden_suspect and not overdue:
        status = "inconclusive"
    status = _with_repeats(status, findings.repeats)
    if status in ("pass", "fail", "not_compared") and findings.comes_and_goes:
        status = "flaky"
    if status == "pass" and any(earlier in _BROKEN for earlier in evidence.earlier):
        status = "flaky"
    if status == "fail" and "pass" in evidence.earlier:
        status = "flaky"
    changed = summarise_changes(
        evidence.reference, findings.layers, findings.outputs, evidence.base, evidence.expectation
    )
    base_too = status == "fail" and _base_fails_too(evidence, findings)
    return CaseVerdict(
        case=evidence.case,
        device=evidence.device,
        profile=evidence.profile,
        status=status,
        notes=_notes(status, findings, changed, expectation, base_too=base_too),
        reason=explain(status, findings, expectation, earlier=evidence.earlier, base_fails_too=base_too),
        first_deviating=findings.first,
        worst=_worst(findings),
        coverage=findings.coverage,
        changed=changed,
        expectation=expectation,
        layers=_indirect(findings),
        outputs=findings.outputs,
        tasks=tuple(evidence.tasks),
        extra_layers=judged.pairing.extra,
        remarks=_remarks(findings, judged, evidence.iterations),
        opinion=findings.opinion,
        inner=findings.inner,
    )


def _numbers_status(findings: Findings) -> CaseStatus:
    """Pass, fail or not compared, from outputs, layers and tasks; repeats and retries come after."""
    if any(out.status in ("fail", "missing") for out in findings.outputs):
        return "fail"
    if findings.gating:
        return "fail"
    if any(task.status == "fail" for task in findings.tasks):
        return "fail"
    unknown = findings.coverage.missing + findings.coverage.not_compared
    if findings.coverage.paired == 0 or unknown or any(out.status != "pass" for out in findings.outputs):
        return "not_compared"
    return "not_compared" if any(task.status != "pass" for task in findings.tasks) else "pass"


def _with_repeats(status: CaseStatus, repeats: Repeats) -> CaseStatus:
    if repeats.state == "first_run":
        return "fail"
    if repeats.state == "beyond":
        return "flaky"
    if repeats.state == "unknown" and status == "pass":
        return "inconclusive"
    return status


def _expectation(evidence: CaseEvidence, findings: Findings, status: CaseStatus) -> ExpectationOutcome | None:
    if evidence.expectation is None:
        return None
    return apply_expectation(
        evidence.expectation,
        status,
        layers=findings.layers,
        outputs=findings.outputs,
        first_deviating=findings.first if status == "fail" else (),
        failing_tasks=[task.name for task in findings.tasks if task.status == "fail"],
        today=evidence.today,
    )


def _base_fails_too(evidence: CaseEvidence, findings: Findings) -> bool:
    base = evidence.base
    if base is None or base.status != "fail" or not findings.first:
        return False
    return base.first_deviating[:1] == findings.first[:1]


def _notes(
    status: CaseStatus,
    findings: Findings,
    changed: ChangeSummary,
    expectation: ExpectationOutcome | None,
    *,
    base_too: bool,
) -> tuple[str, ...]:
    # A known failure has other bits than the golden by its nature; its own note says how it stands.
    known = expectation is not None and expectation.state.startswith("known_failure")
    differs = bool(changed.layers_changed or changed.outputs_changed) and not known
    notes = [
        (NOTE_CHANGED, status == "pass" and differs),
        (NOTE_NONDETERMINISTIC, findings.repeats.state != "same" or bool(findings.inner.floors)),
        (NOTE_OBSERVER_EFFECT, findings.observer),
        (NOTE_BASE_FAILS_TOO, base_too),
        (NOTE_GOLDEN_SUSPECT, findings.golden_suspect),
    ]
    chosen = [note for note, holds in notes if holds]
    if expectation is not None and expectation.note and expectation.note not in chosen:
        chosen.append(expectation.note)
    return tuple(chosen)


def _worst(findings: Findings) -> Worst | None:
    """The first deviating layer's deciding rule; of a case without one, the layer closest to its bound."""
    judged = (*findings.layers, *findings.outputs)
    failing = [layer for layer in judged if layer.status == "fail"]
    first = next((layer for layer in failing if layer.id in findings.first), None)
    layer = first or words.nearest([layer for layer in judged if layer.status == "pass"])
    if layer is None:
        return None
    return Worst(layer.id, layer.metric, layer.measured, layer.bound, layer.would_pass)


def _indirect(findings: Findings) -> tuple[LayerVerdict, ...]:
    if not findings.observer:
        return findings.layers
    return tuple(
        replace(layer, reason=f"{layer.reason} (indirect: dumping the layers changes the result)")
        if layer.status == "fail" and layer.id not in (findings.direct or ())
        else layer
        for layer in findings.layers
    )


def _how_layers_were_seen(findings: Findings) -> str:
    """What stands in for layers that cannot be dumped together without changing the result."""
    text = "dumping changes the result: layer verdicts are indirect, the plain run's outputs decide"
    failing = [layer for layer in findings.layers if layer.status == "fail"]
    if findings.direct is not None:
        seen = sum(1 for layer in failing if layer.id in findings.direct)
        text += f"; dumped a few at a time, {seen} of {len(failing)} layers beyond bounds leave the result as it is"
    alone = sum(1 for layer in findings.layers if layer.alone is not None and layer.alone.ran)
    if alone:
        text += f"; {alone} layers were judged alone on the golden's inputs"
    return text


def _remarks(findings: Findings, judged: JudgedLayers, iterations: int) -> tuple[str, ...]:
    remarks = list(judged.pairing.remarks)
    if iterations > 1:
        remarks.append(f"layers are those of iteration 0 of {iterations}: what parts later shows in the outputs only")
    if findings.observer:
        remarks.append(_how_layers_were_seen(findings))
    if findings.repeats.explanation:
        remarks.append(findings.repeats.explanation)
    if findings.inner.explanation:
        remarks.append(findings.inner.explanation)
    if judged.pairing.extra:
        remarks.append(f"{len(judged.pairing.extra)} reported layers are not in the model and were not compared")
    noted = [layer for layer in findings.layers if layer.status == "pass" and layer.reason]
    for hint in ("subnormal flush", "systematic, same sign pattern"):
        named = [f"`{layer.id}`" for layer in noted if hint in layer.reason]
        if named:
            remarks.append(
                f"{hint}: {', '.join(named[:3])}" + (f" and {len(named) - 3} more" if len(named) > 3 else "")
            )
    return tuple(remarks)
