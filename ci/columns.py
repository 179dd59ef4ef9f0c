"""The three columns of a quantised case: quantisation loss, backend loss, and the same device's CPU backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ci.prepare import PreparedCase
from consistency.metrics import stats_from_arrays
from consistency.pairing import across_quantisation
from consistency.quantisation import backend_column, output_column, quantisation_column, weigh
from consistency.records import CaseVerdict, Column, ObservedLayer, Quantisation
from consistency.thresholds import profile as profile_of
from engine.contract.errors import RunnerNonsense
from engine.contract.trace import Trace
from engine.models.tasks import check_tasks
from farm.evidence import as_observed, reference_layers
from farm.jobs import JobView

JudgeAnswer = Callable[[Mapping[str, Any]], CaseVerdict]


@dataclass(frozen=True)
class Columns:
    """Tells them. What quantisation loses has no device in it and is measured once a case and profile."""

    _lost: dict[tuple[str, str], Column] = field(default_factory=dict)

    def of(
        self,
        prepared: PreparedCase,
        fp32: Trace,
        verdict: CaseVerdict,
        head: JobView,
        cpu: JobView | None,
        judge: JudgeAnswer,
    ) -> Quantisation:
        """What quantisation loses, what the device adds, and whether its CPU backend (job ``cpu``) does so too."""
        key = prepared.case.id, verdict.profile
        if key not in self._lost:
            self._lost[key] = _lost(prepared.golden, fp32, verdict.profile)
        return weigh(self._lost[key], backend_column(verdict), _cpu_column(cpu, judge), _ran_on(head))


def _lost(integer: Trace, fp32: Trace, profile: str) -> Column:
    reference = reference_layers(fp32, None)
    inner = across_quantisation(reference, reference_layers(integer, None))
    finals = {layer.id: layer.id for layer in fp32.finals}
    return quantisation_column(
        profile_of(profile), reference, _seen(integer, fp32, finals), _seen(integer, fp32, inner)
    )


def lost_by_quantisation(prepared: PreparedCase, failed: str) -> bool:
    """Whether the integer reference itself fails the task ``failed``, so that no device could pass it."""
    arrays = {layer.id: prepared.golden.tensor(layer) for layer in prepared.golden.finals}
    checked = check_tasks(prepared.case.checks(), arrays)
    return any(task.name == failed and not task.ok for task in checked)


def _ran_on(head: JobView) -> str:
    answer = head.result or {}
    asked = str(answer.get("requested", {}).get("backend", "unknown"))
    got = str(answer.get("effective", {}).get("backend", asked))
    return got if got == asked else f"{got} (asked for {asked})"


def _cpu_column(cpu: JobView | None, judge: JudgeAnswer) -> Column | None:
    if cpu is None:
        return None
    if cpu.result is None:
        why = cpu.error.message if cpu.error else "no answer"
        return Column("cpu", "unknown", reason=why)
    effective = cpu.result["effective"]["backend"]
    if effective != "cpu":
        return Column("cpu", "unknown", reason=f"asked for the CPU backend, the runner used {effective}")
    try:
        verdict = judge(cpu.result)
    except RunnerNonsense as error:
        return Column("cpu", "unknown", reason=error.message)
    return output_column("cpu", verdict.status, verdict.outputs, verdict.reason)


def _seen(integer: Trace, fp32: Trace, pairs: Mapping[str, str]) -> dict[str, ObservedLayer]:
    """The integer reference's tensors (``pairs``: FP32 id → its id) as if a device had shown them, against FP32."""
    known, seen = integer.by_id(), {}
    for layer in fp32.layers:
        other = known.get(pairs.get(layer.id, ""))
        if other is None:
            continue
        alike = (other.dtype, other.shape) == (layer.dtype, layer.shape)
        stats = stats_from_arrays(integer.tensor(other), fp32.tensor(layer), 0.0) if alike else None
        seen[layer.id] = as_observed(other, stats)
    return seen
