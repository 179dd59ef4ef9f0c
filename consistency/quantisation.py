"""Where a quantised model loses: in the quantisation, in the backend, or on the device's CPU too.

A loss between FP32 and the integer reference is a property of the model: it is there before any device has run, and
no commit of an engine can mend or make it. What a backend adds is measured against the integer reference, and the same
device's CPU backend tells whether it is that backend or the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consistency import words
from consistency.judge_layer import LayerJudge
from consistency.records import CaseStatus, Column, LayerVerdict, ObservedLayer, Quantisation, ReferenceLayer
from consistency.records.quantisation import Blame, ColumnName
from consistency.thresholds import Profile


def quantisation_column(
    profile: Profile, fp32: Sequence[ReferenceLayer], integer: Mapping[str, ObservedLayer]
) -> Column:
    """The integer reference's final outputs, as if a device had shown them, against those of FP32."""
    judge = LayerJudge(profile, {layer.id: layer for layer in fp32})
    finals = [layer for layer in fp32 if layer.final]
    verdicts = [judge.judge(layer, 0, integer[layer.id]) for layer in finals if layer.id in integer]
    if len(verdicts) < len(finals) or not verdicts:
        return Column("quantisation", "unknown", reason="the two models do not have the same outputs")
    return _column("quantisation", verdicts, failed=any(verdict.status == "fail" for verdict in verdicts))


def output_column(name: ColumnName, status: CaseStatus, outputs: Sequence[LayerVerdict], reason: str = "") -> Column:
    """A run's final outputs against the integer reference; ``beyond`` also when an inner layer alone fails it."""
    if status not in ("pass", "fail"):
        return Column(name, "unknown", reason=f"{status}: {reason}" if reason else status)
    return _column(name, outputs, failed=status == "fail")


def weigh(quantisation: Column, backend: Column, cpu: Column | None, ran_on: str) -> Quantisation:
    """Who is to blame. ``cpu`` is ``None`` where the CPU is what ran (``ran_on``)."""
    columns = (quantisation, backend) if cpu is None else (quantisation, backend, cpu)
    loss = f"quantisation loses {_amount(quantisation)}"
    if backend.status == "unknown":
        return Quantisation(columns, "unknown", f"{loss}; backend {ran_on}: {backend.reason}")
    added = f"backend {ran_on} adds {_amount(backend)}"
    blame, told = _blame(quantisation, backend, cpu, ran_on)
    return Quantisation(columns, blame, f"{loss}; {added}: {told}")


def _blame(quantisation: Column, backend: Column, cpu: Column | None, ran_on: str) -> tuple[Blame, str]:
    if backend.status == "beyond":
        if cpu is None:
            return "engine", "the engine computes otherwise than the integer reference, on the CPU already"
        if cpu.status == "within":
            return "backend", f"the same device's CPU backend is within bounds ({_amount(cpu)}), so it is {ran_on}"
        if cpu.status == "beyond":
            return "engine", f"the same device's CPU backend is beyond bounds too ({_amount(cpu)}): not {ran_on} alone"
        return "unknown", f"the same device's CPU backend could not be asked ({cpu.reason})"
    if quantisation.status == "beyond":
        return "model", "the loss is a property of the quantised model, not of this device or commit"
    return "none", "both within bounds"


def _column(name: ColumnName, verdicts: Sequence[LayerVerdict], *, failed: bool) -> Column:
    worst = max(verdicts, key=_used, default=None)
    if worst is None:
        return Column(name, "beyond" if failed else "unknown", reason="no output was compared")
    if worst.status not in ("pass", "fail") and not failed:
        return Column(name, "unknown", worst.id, reason=worst.reason)
    found = worst.metrics
    numbers = (found.max_abs, found.scaled_rms, found.sqnr_db, found.cosine) if found else (None,) * 4
    return Column(name, "beyond" if failed else "within", worst.id, *numbers, worst.bound, worst.reason)


def _used(verdict: LayerVerdict) -> tuple[bool, float]:
    """Failing outputs first, then the share of the bound."""
    share = (verdict.measured or 0.0) / verdict.bound if verdict.bound and verdict.metric == "max_abs" else 0.0
    return verdict.status != "pass", share


def _amount(column: Column) -> str:
    if column.max_abs is None:
        return f"an unknown amount ({column.reason})" if column.reason else "an unknown amount"
    share = f", {words.number(column.scaled_rms)} of the reference's RMS" if column.scaled_rms is not None else ""
    return f"{words.number(column.max_abs)} at `{column.layer}`{share}"
