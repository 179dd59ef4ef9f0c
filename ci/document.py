"""``verdict.json`` and ``layers.parquet`` of a run, from its outcomes: the only two files reports read."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ci.judge import CaseOutcome
from ci.options import NotTested
from ci.plan import Matrix
from consistency.pairing import paired_by_name
from consistency.records import CaseStatus, CaseVerdict, ChipPairVerdict, LayerVerdict, Worst
from farm.jobs import AttemptView, JobView

#: Layers of one case whose distances from every referee are listed; all are counted.
MOST_OPINIONS = 20
#: Layers of one case that vary from run to run and are listed with their noise; all are counted.
MOST_NOISY = 20
_WORST_FIELDS = ("layer", "metric", "measured", "bound", "would_pass")


@dataclass(frozen=True)
class PairOutcome:
    """Two devices compared on one case."""

    a: str
    b: str
    case: str
    verdict: ChipPairVerdict

    @property
    def status(self) -> CaseStatus:
        """The pair's status in the words of cases."""
        if self.verdict.status == "inconclusive_needs_tensors":
            return "inconclusive"
        return cast(CaseStatus, self.verdict.status)


def device_entry(
    name: str, outcomes: Sequence[CaseOutcome], listed: Mapping[str, Any], left_out: NotTested | None
) -> dict[str, Any]:
    """One device: what it is, whether it was tested, and its fingerprint."""
    own = [outcome for outcome in outcomes if outcome.device.name == name]
    answered = [outcome for outcome in outcomes if outcome.answer and outcome.unit == name]
    fingerprint = dict(answered[0].answer["fingerprint"]) if answered else {}
    reason = left_out.reason if left_out else next(_troubles(name, own), None)
    return {**listed, "tested": bool(answered), "state": "ready" if answered else "not tested", "reason": reason,
            "fingerprint": fingerprint}  # fmt: skip


def _troubles(name: str, own: Sequence[CaseOutcome]) -> Iterator[str]:
    """Why a device is not tested, or not wholly."""
    yield from (outcome.reason for outcome in own if not outcome.answer)
    tries = [tried for outcome in own for tried in outcome.job.tries if tried.device == name]
    yield from (tried.error.message for tried in tries if tried.error)
    yield from (f"{outcome.job.moved}; its cases ran on {outcome.unit}" for outcome in own if outcome.unit != name)


def case_entry(outcome: CaseOutcome) -> dict[str, Any]:
    """One case on one device."""
    verdict, answer = outcome.verdict, outcome.answer
    first = list(verdict.first_deviating)
    return {
        "case": outcome.prepared.case.id,
        "model": outcome.prepared.case.model,
        "device": outcome.device.name,
        "chip": outcome.device.chip,
        "status": outcome.status,
        "notes": list(outcome.notes),
        "first_deviating_layers": first,
        "first_deviating_layer": first[0] if first else None,
        "reason": outcome.reason,
        "worst": _worst(verdict.worst),
        "coverage": _coverage(verdict),
        "tasks": [dataclasses.asdict(task) for task in outcome.tasks],
        "outputs": [_output(layer) for layer in verdict.outputs],
        "changed": _changed(verdict),
        "expectation": _expectation(verdict),
        "effective": dict(answer.get("effective", {})),
        "requested": dict(answer.get("requested", {})),
        "latency_ms": _latency(answer),
        "attempts": outcome.job.attempts,
        "evidence": _evidence(outcome),
        "tries": [_try(job, tried) for job in (outcome.job, *outcome.confirmations) for tried in job.tries],
        "traffic": {**answer.get("traffic", {}), "layer_bytes": answer.get("layer_bytes", 0)},
        "profile": verdict.profile,
        **{name: answer[name] for name in ("readings", "memory") if answer.get(name)},
        **_itself(outcome),
        **_second_referee(verdict),
        **({"quantisation": dataclasses.asdict(outcome.quantisation)} if outcome.quantisation else {}),
    }


def _itself(outcome: CaseOutcome) -> dict[str, Any]:
    """What the device gave when it was compared with itself, and what else is worth a remark; absent when nothing."""
    again, inner = outcome.answer.get("again", ()), outcome.verdict.inner
    told: dict[str, Any] = {"runs": len(again), "noise": outcome.answer.get("noise", {})}
    if inner.runs > 1:
        floors = list(inner.floors.items())[:MOST_NOISY]
        apart = {name: dataclasses.asdict(floor) if floor else None for name, floor in floors}
        told["layers"] = {
            "runs": inner.runs,
            "varying": len(inner.floors),
            "first": list(inner.first)[:MOST_NOISY],
            "noise": apart,
        }
    compared = told if again or inner.runs > 1 else None
    remarks = list(outcome.verdict.remarks)
    return {name: value for name, value in (("itself", compared), ("remarks", remarks)) if value}


def _second_referee(verdict: CaseVerdict) -> dict[str, Any]:
    """What the other referees say of a failure that canonical shares; nothing when nobody had to be asked."""
    opinion = verdict.opinion
    if opinion is None:
        return {}
    layers = [dataclasses.asdict(layer) for layer in opinion.layers[:MOST_OPINIONS]]
    told = {"status": opinion.status, "evaluator": opinion.evaluator, "reason": opinion.reason}
    return {"second_referee": {**told, "total": len(opinion.layers), "layers": layers}}


def _evidence(outcome: CaseOutcome) -> dict[str, str]:
    """What the device kept of a crash: text that it may have made up, shown as text."""
    fields = outcome.job.error.fields if outcome.job.error else {}
    return {name: str(fields[name]) for name in ("logcat", "tombstone") if name in fields}


def _try(job: JobView, tried: AttemptView) -> dict[str, Any]:
    return {
        "role": str(job.role),
        "attempt": tried.number,
        "unit": tried.device,
        "outcome": tried.outcome,
        "error": tried.error.message if tried.error else None,
        "seconds": None if tried.ended is None else max(0.0, tried.ended - tried.started),
    }


def _worst(worst: Worst | None) -> dict[str, Any] | None:
    return None if worst is None else {name: getattr(worst, name) for name in _WORST_FIELDS}


def _coverage(verdict: CaseVerdict) -> dict[str, int]:
    found = verdict.coverage
    return {
        "paired": found.paired,
        "expected": found.expected,
        "not_observable": found.not_observable,
        "missing": found.missing + found.not_compared,
    }


def _output(layer: LayerVerdict) -> dict[str, Any]:
    return {
        "name": layer.id,
        "digest": layer.observed.digest if layer.observed else None,
        "matched": layer.matched,
    }


def _changed(verdict: CaseVerdict) -> dict[str, Any]:
    changed = verdict.changed
    return {
        "against": changed.against,
        "layers_changed": changed.layers_changed,
        "outputs_changed": list(changed.outputs_changed),
        "first_changed_layer": changed.first_changed_layer,
        "reason": changed.reason or None,
    }


def _expectation(verdict: CaseVerdict) -> dict[str, Any] | None:
    if verdict.expectation is None:
        return None
    found = verdict.expectation
    return {"status": found.state, "owner": found.owner, "reason": found.reason, "expires": found.expires}


def _latency(answer: Mapping[str, Any]) -> dict[str, float | None]:
    latency: dict[str, float | None] = {"plain": None, "instrumented": None}
    for entry in answer.get("passes", ()):
        if entry["kind"] in latency and latency[entry["kind"]] is None:
            latency[entry["kind"]] = entry["latency_ns"] / 1e6
    return latency


def pair_entry(pair: PairOutcome) -> dict[str, Any]:
    """One chip pair on one case."""
    verdict = pair.verdict
    first = verdict.first_deviating[0] if verdict.first_deviating else verdict.first_split
    return {
        "a": pair.a,
        "b": pair.b,
        "case": pair.case,
        "status": pair.status,
        "bit_identical": verdict.bit_identical,
        "layers_equal": verdict.layers_equal,
        "layers_compared": verdict.layers_compared,
        "first_deviating_layer": first,
        "reason": verdict.reason,
        "worst": _worst(verdict.worst),
    }


def coverage(matrix: Matrix, outcomes: Sequence[CaseOutcome], required: Sequence[str]) -> dict[str, int]:
    """Totals over the whole run; they equal the sums of the cases."""
    entries = [case_entry(outcome)["coverage"] for outcome in outcomes]
    tested = {outcome.unit for outcome in outcomes if outcome.answer}
    emulated = {device.name for device, _ in matrix.devices if not device.real}
    fingerprints = [outcome.answer["fingerprint"] for outcome in outcomes if outcome.answer]
    return {
        "layers_paired": sum(entry["paired"] for entry in entries),
        "layers_expected": sum(entry["expected"] for entry in entries),
        "layers_not_observable": sum(entry["not_observable"] for entry in entries),
        "layers_constant": sum(len(outcome.prepared.golden.constant) for outcome in outcomes),
        "devices_tested": len(tested),
        "devices_required": len(required),
        "devices_real": len(tested - emulated),
        "devices_emulated": len(tested & emulated),
        "distinct_dispatch": len({(entry["bundle"], entry["dispatch"]) for entry in fingerprints}),
    }


def traffic(outcomes: Sequence[CaseOutcome]) -> dict[str, int]:
    """Bytes that moved for the cases, models and inputs cached."""
    answers = [outcome.answer for outcome in outcomes if outcome.answer]
    return {
        "bytes_to_devices": sum(answer["traffic"]["to_device"] for answer in answers),
        "bytes_from_devices": sum(answer["traffic"]["from_device"] for answer in answers),
        "layer_bytes": sum(answer["layer_bytes"] for answer in answers),
    }


def layer_rows(outcomes: Sequence[CaseOutcome], matrix: Matrix) -> Iterator[dict[str, Any]]:
    """One row per case, device and expected layer, in topological order."""
    for outcome in outcomes:
        canonical = matrix.canonical.get(outcome.prepared.case.id)
        digests = {layer.id: layer.digest for layer in canonical.layers} if canonical else {}
        golden = {layer.id: (layer.dtype, "x".join(map(str, layer.shape))) for layer in outcome.prepared.golden.layers}
        for layer in outcome.verdict.layers:
            dtype, shape = golden[layer.id]
            yield {
                "case": outcome.prepared.case.id,
                "device": outcome.device.name,
                "chip": outcome.device.chip,
                "model": outcome.prepared.case.model,
                "layer": layer.id,
                "index": layer.index,
                "op": layer.op,
                "dtype": dtype,
                "shape": shape,
                "canonical_digest": digests.get(layer.id),
                "base_digest": layer.base_digest,
                **_measured(layer),
            }


def _measured(layer: LayerVerdict) -> dict[str, Any]:
    metrics, observed = layer.metrics, layer.observed
    names = ("max_abs", "scaled_rms", "scaled_p999", "rmse", "sqnr_db", "cosine", "norm_ratio", "over_bound", "count",
             "worst_index", "worst_got", "worst_ref")  # fmt: skip
    return {
        "status": layer.status,
        "matched": layer.matched,
        "backend": observed.backend if observed else None,
        "segment": observed.segment if observed else None,
        "digest": observed.digest if observed else None,
        "covers": "\n".join(observed.covers) if observed else None,
        **({name: getattr(metrics, name) for name in names} if metrics else {}),
        "bound": layer.bound,
        "would_pass": layer.would_pass,
        **vars(layer.nonfinite),
        "introduced": layer.introduced,
        **_alone(layer),
        **_paired(layer),
        "reason": layer.reason,
    }


def _paired(layer: LayerVerdict) -> dict[str, Any]:
    """By what the device's layer was taken for the model's; a fused layer bears the names of several operators."""
    if layer.observed is None:
        return {}
    op = "" if layer.observed.covers else layer.observed.op
    found = paired_by_name(layer.op, "" if op == "output" else op)
    return {"paired_by": found.by, "confidence": found.confidence}


def _alone(layer: LayerVerdict) -> dict[str, Any]:
    """What the layer introduced by itself, and what at least reached it; empty when it did not run alone."""
    own = layer.alone
    if own is None:
        return {}
    introduced = own.metrics.max_abs if own.metrics else None
    total = layer.metrics.max_abs if layer.metrics else None
    inherited = None if introduced is None or total is None else max(0.0, total - introduced)
    return {"alone": own.status, "introduced_max_abs": introduced, "inherited_max_abs": inherited}


def host_facts() -> dict[str, str]:
    """The machine that ran the farm; no host name, no user name."""
    return {"system": platform.system(), "machine": platform.machine(), "python": platform.python_version()}
