"""From the ended jobs of a run to a verdict per case and device, chip pairs and bit-identity."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ci.columns import Columns, lost_by_quantisation
from ci.expectations import find_expectation
from ci.plan import Matrix
from ci.prepare import PreparedCase
from ci.second import SecondReferee
from consistency.records import (
    NOTE_QUANTISATION_LOSS,
    BaseEvidence,
    CaseEvidence,
    CaseStatus,
    CaseVerdict,
    Expectation,
    ObservedLayer,
    PlainRun,
    Quantisation,
    Stats,
    TaskResult,
)
from consistency.verdict import judge_case, not_run
from engine.contract.errors import RunnerNonsense
from engine.contract.trace import Trace
from engine.models.tasks import check_tasks
from farm.evidence import direct_layers, layer_runs, layers_alone, observed_layers, observed_outputs
from farm.inventory import Device
from farm.jobs import JobError, JobView, Role, RunSummary
from farm.outputs import output_array

RETRIED = "retried"
"""Note: the answer came on another attempt, or from another unit, after an infrastructure fault."""


@dataclass(frozen=True)
class CaseOutcome:
    """One case on one device: its verdict, or why there is none."""

    prepared: PreparedCase
    device: Device
    abi: str
    status: CaseStatus
    reason: str
    job: JobView
    verdict: CaseVerdict
    notes: tuple[str, ...] = ()
    tasks: tuple[TaskResult, ...] = ()
    confirmations: tuple[JobView, ...] = ()
    quantisation: Quantisation | None = None

    @property
    def unit(self) -> str:
        """The device that it ran on: another unit than ``device`` when that one failed."""
        return self.job.device

    @property
    def answer(self) -> Mapping[str, Any]:
        """What the device answered; empty when it did not."""
        return self.job.result or {}


@dataclass(frozen=True)
class Judge:
    """Judges a run's jobs against the references of its matrix."""

    matrix: Matrix
    root: Path
    engine: str
    level: int
    today: datetime.date = field(default_factory=datetime.date.today)
    referee: SecondReferee = field(default_factory=SecondReferee)
    columns: Columns = field(default_factory=Columns)

    def outcomes(self, summary: RunSummary) -> list[CaseOutcome]:
        """One outcome per case and device, in matrix order."""
        found = []
        for device, abi in self.matrix.devices:
            for prepared in self.matrix.cases:
                head = summary.of(prepared.case.id, device.name, Role.HEAD)
                if head is not None:
                    base = summary.of(prepared.case.id, device.name, Role.BASE)
                    cpu = summary.of(prepared.case.id, device.name, Role.CPU)
                    found.append(self._with_columns(self._outcome(prepared, device, abi, head, base), cpu))
        return found

    def _with_columns(self, outcome: CaseOutcome, cpu: JobView | None) -> CaseOutcome:
        """A quantised case with its three columns; a loss of the model's own is a note, whatever its size."""
        prepared, device = outcome.prepared, outcome.device
        if prepared.fp32 is None or not outcome.answer:
            return outcome

        def judged(answer: Mapping[str, Any]) -> CaseVerdict:
            return replace(self, level=0)._judge(prepared, device, answer, None, None, ())

        told = self.columns.of(prepared, prepared.fp32, outcome.verdict, outcome.job, cpu, judged)
        lossy = told.columns[0].status == "beyond"
        notes = (*outcome.notes, NOTE_QUANTISATION_LOSS) if lossy else outcome.notes
        reason = f"{outcome.reason}; {told.reason}" if told.blame != "none" else outcome.reason
        return replace(outcome, quantisation=told, notes=notes, reason=reason)

    def _outcome(
        self, prepared: PreparedCase, device: Device, abi: str, head: JobView, base: JobView | None
    ) -> CaseOutcome:
        if head.result is None:
            error = head.error or JobError(type="cancelled", message="the job was cancelled", status="infra")
            reason = f"{error.message}. {error.hint}" if error.hint else error.message
            return self._not_run(prepared, device, abi, head, error.status, reason, base)
        try:
            expectation = find_expectation(self.root, device.chip_model, prepared.case.id, self.engine)
            tasks = self._tasks(prepared, head.result)
            verdict = self._judge(prepared, device, head.result, self._base(prepared, device, base), expectation, tasks)
        except RunnerNonsense as error:
            return self._not_run(prepared, device, abi, head, error.status, error.message, base)
        reason, notes = verdict.reason, verdict.notes
        if trouble := head.result.get("trouble"):
            reason = f"{reason}; a closer look was not possible: {trouble}"
        if left_out := _left_out(head.result):
            reason = f"{reason}; {left_out}"
        if otherwise := _ran_otherwise(head.result):
            reason = f"{reason}; {otherwise}"
        if told := _earlier(head, device.name):
            reason, notes = f"{reason}; {told}", (*notes, RETRIED)
        return CaseOutcome(prepared, device, abi, verdict.status, reason, head, verdict, notes, tasks)

    def _not_run(
        self,
        prepared: PreparedCase,
        device: Device,
        abi: str,
        head: JobView,
        status: str,
        reason: str,
        base: JobView | None,
    ) -> CaseOutcome:
        base_status = base.error.status if base and base.error else None
        verdict = not_run(
            prepared.case.id,
            device.name,
            self.matrix.profile or prepared.case.profile,
            self.matrix.references[prepared.case.id],
            cast(CaseStatus, status),
            reason,
            base_status=base_status,
        )
        job = replace(head, result=None)
        return CaseOutcome(prepared, device, abi, verdict.status, verdict.reason, job, verdict, verdict.notes)

    def outputs_status(self, prepared: PreparedCase, device: Device, answer: Mapping[str, Any]) -> CaseStatus:
        """The status that the outputs of a plain run alone would give."""
        try:
            tasks = self._tasks(prepared, answer)
            return replace(self, level=0)._judge(prepared, device, answer, None, None, tasks).status
        except RunnerNonsense as error:
            return cast(CaseStatus, error.status)

    def _judge(
        self,
        prepared: PreparedCase,
        device: Device,
        answer: Mapping[str, Any],
        base: BaseEvidence | None,
        expectation: Expectation | None,
        tasks: tuple[TaskResult, ...],
    ) -> CaseVerdict:
        outputs, observed = observed_outputs(answer), observed_layers(answer)
        varying, ran = layer_runs(answer, observed) if self.level else ({}, 1)
        evidence = CaseEvidence(
            case=prepared.case.id,
            device=device.name,
            profile=self.matrix.profile or prepared.case.profile,
            level=self.level,
            reference=self.matrix.references[prepared.case.id],
            outputs=outputs,
            plain_runs=_plain_runs(answer, outputs),
            observed=observed,
            instrumented_outputs=_instrumented(answer),
            base=base,
            expectation=expectation,
            today=self.today.isoformat(),
            tasks=tasks,
            alone=layers_alone(answer),
            direct=direct_layers(answer),
            noise=answer.get("noise", {}),
            layer_runs=varying,
            layers_ran=ran,
            iterations=sum(1 for entry in answer["passes"] if entry["kind"] == "instrumented"),
        )
        verdict = judge_case(evidence)
        if verdict.status != "fail":
            return verdict
        canonical = self.matrix.canonical.get(prepared.case.id)
        witnesses = self.referee.witnesses(prepared, canonical, verdict, evidence.reference, answer)
        return judge_case(replace(evidence, witnesses=witnesses)) if witnesses else verdict

    def _tasks(self, prepared: PreparedCase, answer: Mapping[str, Any]) -> tuple[TaskResult, ...]:
        """The task checks on the plain run's outputs."""
        references: tuple[Trace | None, ...] = (prepared.golden, self.matrix.canonical.get(prepared.case.id))
        arrays = {str(record["name"]): output_array(record, references) for record in answer["outputs"]}
        known = {name: array for name, array in arrays.items() if array is not None}
        checked = check_tasks(prepared.case.checks(), known)
        results = (
            TaskResult(task.name, "pass" if task.ok else "fail", task.expected, task.got, task.reason)
            for task in checked
        )
        return tuple(self._unless_lost(prepared, result) for result in results)

    @staticmethod
    def _unless_lost(prepared: PreparedCase, result: TaskResult) -> TaskResult:
        """A task that quantisation lost says nothing of a device or a commit."""
        if result.status != "fail" or prepared.fp32 is None or not lost_by_quantisation(prepared, result.name):
            return result
        reason = "the integer reference fails it too: lost by quantisation, whatever runs the model"
        return replace(result, status="not_compared", reason=reason)

    def _base(self, prepared: PreparedCase, device: Device, base: JobView | None) -> BaseEvidence | None:
        if base is None:
            return None
        if base.result is None:
            return BaseEvidence(status=base.error.status if base.error else "infra")
        verdict = self._judge(prepared, device, base.result, None, None, self._tasks(prepared, base.result))
        return BaseEvidence(
            status=verdict.status,
            layers={str(record["id"]): str(record["digest"]) for record in base.result["layers"]},
            outputs={str(record["name"]): str(record["digest"]) for record in base.result["outputs"]},
            first_deviating=verdict.first_deviating,
        )


def _left_out(answer: Mapping[str, Any]) -> str:
    """The looks for which the job's time was too short; empty when there were none."""
    what = answer.get("left_out")
    return f"left out, for it took too long (a larger `limits.seconds` allows more): {', '.join(what)}" if what else ""


def _ran_otherwise(answer: Mapping[str, Any]) -> str:
    """What was asked for and is not what ran; empty when all is as asked."""
    asked, ran = answer.get("requested", {}), answer.get("effective", {})
    unlike = [key for key in asked if key in ran and ran[key] != asked[key]]
    return ", ".join(f"asked for {key} {asked[key]}, it ran with {ran[key]}" for key in unlike)


def _earlier(job: JobView, planned: str) -> str:
    """What came before the attempt that gave the answer; empty when it was the first, where it was planned.

    Only infrastructure errors are retried: they say nothing against the engine, so the answer counts.
    """
    words = [
        f"attempt {tried.number} on {tried.device}: {tried.error.message if tried.error else tried.outcome}"
        for tried in job.tries[:-1]
    ]
    if job.moved and not words:
        words.append(job.moved)
    if words or job.device != planned:
        words.append(f"this is attempt {max(1, job.attempts)}, on {job.device}")
    return "; ".join(words)


def _plain_runs(answer: Mapping[str, Any], outputs: Sequence[ObservedLayer]) -> tuple[PlainRun, ...]:
    """Every plain iteration; statistics belong to the iterations that gave the very bytes that came back.

    Those that a device ran to be compared with itself come last, each with its own statistics.
    """
    runs, threads = [], answer.get("effective", {}).get("threads", 0)
    for entry in answer["passes"]:
        if entry["kind"] == "plain":
            same = [layer for layer in outputs if entry["outputs"].get(layer.id) == layer.digest]
            stats: dict[str, Stats] = {layer.id: layer.stats for layer in same if layer.stats is not None}
            runs.append(PlainRun(entry["iteration"], entry["outputs"], stats, threads))
    last = max((run.iteration for run in runs), default=-1)
    for number, entry in enumerate(answer.get("again", ()), last + 1):
        stats = {name: Stats(**values) for name, values in entry["stats"].items()}
        runs.append(PlainRun(number, entry["outputs"], stats, entry["threads"]))
    return tuple(runs)


def _instrumented(answer: Mapping[str, Any]) -> Mapping[str, str] | None:
    for entry in answer["passes"]:
        if entry["kind"] == "instrumented":
            outputs: Mapping[str, str] = entry["outputs"]
            return outputs
    return None
