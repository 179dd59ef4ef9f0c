"""Where a quantised model loses: in the quantisation, in the backend, or on the device's CPU too.

A loss between FP32 and the integer reference is a property of the model: it is there before any device has run, and
no commit of an engine can mend or make it. What a backend adds is measured against the integer reference, and the same
device's CPU backend tells whether it is that backend or the engine. Where either loss begins is told by layer: the
reference's layers are on the host, the device's verdicts are there already, so that no tensor moves for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from consistency import words
from consistency.judge_layer import LayerJudge
from consistency.localise import first_deviating
from consistency.records import (
    CaseStatus,
    CaseVerdict,
    Column,
    LayerVerdict,
    ObservedLayer,
    Quantisation,
    ReferenceLayer,
)
from consistency.records.quantisation import Blame, ColumnName
from consistency.thresholds import Profile


def quantisation_column(
    profile: Profile,
    fp32: Sequence[ReferenceLayer],
    integer: Mapping[str, ObservedLayer],
    inner: Mapping[str, ObservedLayer] | None = None,
) -> Column:
    """The integer reference's final outputs, as if a device had shown them, against those of FP32.

    ``inner`` are the tensors that stand for FP32's layers (by FP32 id, see ``across_quantisation``): they tell where
    the loss begins and decide nothing.
    """
    judge = LayerJudge(profile, {layer.id: layer for layer in fp32})
    finals = [layer for layer in fp32 if layer.final]
    verdicts = [judge.judge(layer, 0, integer[layer.id]) for layer in finals if layer.id in integer]
    if len(verdicts) < len(finals) or not verdicts:
        return Column("quantisation", "unknown", reason="the two models do not have the same outputs")
    column = _column("quantisation", verdicts, failed=any(verdict.status == "fail" for verdict in verdicts))
    layers = [judge.judge(layer, 0, inner[layer.id]) for layer in fp32 if inner and layer.id in inner]
    lost = first_deviating(fp32, [verdict.id for verdict in layers if verdict.status == "fail"])
    compared = sum(verdict.status in ("pass", "fail") for verdict in layers)
    return replace(column, first=lost.introduced, compared=compared)


def output_column(name: ColumnName, status: CaseStatus, outputs: Sequence[LayerVerdict], reason: str = "") -> Column:
    """A run's final outputs against the integer reference; ``beyond`` also when an inner layer alone fails it."""
    if status not in ("pass", "fail"):
        return Column(name, "unknown", reason=f"{status}: {reason}" if reason else status)
    return _column(name, outputs, failed=status == "fail")


def backend_column(verdict: CaseVerdict) -> Column:
    """What ran on the device against the integer reference, with the layers at which it first deviates."""
    column = output_column("backend", verdict.status, verdict.outputs, verdict.reason)
    compared = sum(layer.status in ("pass", "fail") for layer in verdict.layers)
    return replace(column, first=verdict.first_deviating, compared=compared)


def weigh(quantisation: Column, backend: Column, cpu: Column | None, ran_on: str) -> Quantisation:
    """Who is to blame. ``cpu`` is ``None`` where the CPU is what ran (``ran_on``)."""
    columns = (quantisation, backend) if cpu is None else (quantisation, backend, cpu)
    loss = f"quantisation loses {_amount(quantisation)}{_where(quantisation)}"
    if backend.status == "unknown":
        return Quantisation(columns, "unknown", f"{loss}; backend {ran_on}: {backend.reason}")
    added = f"backend {ran_on} adds {_amount(backend)}{_where(backend)}"
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


def _where(column: Column) -> str:
    """Where the loss first is beyond its bounds; empty where it never is."""
    if not column.first:
        return ""
    others = f" and {len(column.first) - 1} more" if len(column.first) > 1 else ""
    return f", first beyond bounds at `{column.first[0]}`{others}"


def _amount(column: Column) -> str:
    if column.max_abs is None:
        return f"an unknown amount ({column.reason})" if column.reason else "an unknown amount"
    share = f", {words.number(column.scaled_rms)} of the reference's RMS" if column.scaled_rms is not None else ""
    return f"{words.number(column.max_abs)} at `{column.layer}`{share}"
