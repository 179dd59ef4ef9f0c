"""The gate: build, deploy, run, compare, report; one function per phase, in the order of ``architecture.md``."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci.asked import read_asked
from ci.builds import EngineSource, bundles, head_source
from ci.confirm import Confirmation, Drive
from ci.console import Console, Phases
from ci.expectations import find_expectation
from ci.judge import Judge
from ci.options import GateOptions, NotTested, Selection
from ci.plan import EngineUnderTest, Matrix, case_job, payload, plan, referee_device
from ci.prepare import model_file, mutant, prepare_cases
from ci.runfolder import GateRun, RunFolder, stood_in_for
from engine.contract.errors import MissingToolError
from engine.contract.trace import Trace
from engine.places import cache_root
from engine.toolchain import emulator
from farm.health import Health
from farm.inventory import Device
from farm.jobs import JobSpec, RunSpec, RunSummary
from farm.references import canonical_trace
from farm.session import FarmSession
from farm.sharing import publisher_for
from farm.store.jobs import create_run
from farm.store.runs import note_run
from farm.suites import Case

REFEREE = "refrt"
REFEREE_ABIS = ("x86-64-v3", "x86-64")


@dataclass(frozen=True)
class GatePlan:
    """One suite with one engine, ready to run: everything built, fetched and computed."""

    options: GateOptions
    started: datetime.datetime
    phases: Phases
    selection: Selection
    head: EngineUnderTest
    base: EngineUnderTest | None
    matrix: Matrix
    left: tuple[NotTested, ...]
    health: Health

    def jobs(self) -> list[JobSpec]:
        """All jobs of the plan."""
        return plan(self.matrix, self.head, self.base)

    def check_expectations(self) -> None:
        """``ConfigError`` when a reviewed expectation of this plan is broken: better before its jobs than after."""
        for device, _ in self.matrix.devices:
            for entry in self.matrix.cases:
                find_expectation(self.options.root, device.chip_model, entry.case.id, self.head.source.manifest.name)

    def payload(self) -> dict[str, Any]:
        """What the farm must know beside the jobs."""
        return payload([device for device, _ in self.matrix.devices], self.health)


def run_gate(options: GateOptions, console: Console, farm: FarmSession) -> GateRun:
    """Run one gate; raises ``LockstepError`` for usage and configuration, returns a verdict for everything else."""

    planned = prepare_gate(options, console)
    planned.check_expectations()
    confirming: list[str] = []

    def confirm(jobs: list[JobSpec]) -> RunSummary:
        again = _run(farm, planned, jobs, console, confirms=summary.run_id)
        confirming.append(again.run_id)
        return again

    with planned.phases.phase("jobs on devices"):
        summary = _run(farm, planned, planned.jobs(), console)
    written = conclude(planned, summary, confirm, console, farm.slots)
    report = str((written.folder / "report" / "index.html").absolute())
    for run in (summary.run_id, *confirming):
        note_run(farm.store, run, report=report, exit_code=written.outcome.exit_code)
    if confirming:
        note_run(farm.store, summary.run_id, confirmed_by=confirming)
    return written


def prepare_gate(options: GateOptions, console: Console) -> GatePlan:
    """Select, fetch, build and compute the references: all that comes before the first job."""
    started = datetime.datetime.now(datetime.UTC)
    phases = Phases(console.say)
    asked = read_asked(options)
    head, selection = asked.head, asked.selection
    publisher_for(device for device, _ in selection.devices)  # what other hosts need is asked for before any work
    devices, emulators, missing = _usable(selection.devices)
    with phases.phase("models and golden traces"):
        cases = prepare_cases(asked.suite, selection.cases, console.say)
    matrix = Matrix(devices, cases, emulators=emulators, profile=asked.rules)
    models: dict[str, Path] = {case.case.id: case.onnx for case in cases}
    unaffected: tuple[Case, ...] = ()
    if options.inject:
        mutants = mutant(cases, options.inject)
        unaffected = tuple(entry.case for entry in cases if entry.case.id not in mutants)
        models.update(mutants)
        matrix = replace(matrix, cases=tuple(entry for entry in cases if entry.case.id in mutants))
    with phases.phase("engine builds"):
        under_test = _engine(head, matrix, models, options.root, console)
        base = _base(asked.base, options, matrix, console)
    with phases.phase("canonical traces"):
        matrix = replace(matrix, canonical=_canonical(options, matrix, console))
    left = (*selection.not_tested, *missing, *_unaffected(unaffected))
    return GatePlan(options, started, phases, selection, under_test, base, matrix, left, asked.fleet.health)


def conclude(
    planned: GatePlan, summary: RunSummary, drive: Drive, console: Console, slots: int, folder: Path | None = None
) -> GateRun:
    """Judge the ended jobs, confirm failures, write the report (into ``folder``; else a new one under ``out``)."""
    phases, matrix, source = planned.phases, planned.matrix, planned.head.source
    judge = Judge(matrix, planned.options.root, source.manifest.name, source.manifest.level)
    with phases.phase("comparison"):
        outcomes = judge.outcomes(summary)
    with phases.phase("confirmation"):
        outcomes = Confirmation(judge, planned.head, drive, console.say).confirmed(outcomes)
    run = RunFolder(
        planned.options,
        planned.started,
        planned.selection,
        source,
        planned.base,
        matrix,
        outcomes,
        (*planned.left, *stood_in_for(outcomes, planned.selection.required_devices)),
        summary,
        slots,
        folder,
    )
    with phases.phase("report"):
        return run.write(phases)


def _usable(
    chosen: tuple[tuple[Device, str], ...],
) -> tuple[tuple[tuple[Device, str], ...], dict[str, str], list[NotTested]]:
    """Devices whose emulator is there; the others count as not tested, with what to install."""
    usable: list[tuple[Device, str]] = []
    emulators: dict[str, str] = {}
    missing: list[NotTested] = []
    for device, abi in chosen:
        try:
            if device.link.emulator and not device.at:  # another host has its own emulators
                emulators[device.link.emulator] = str(emulator(device.link.emulator))
            usable.append((device, abi))
        except MissingToolError as error:
            missing.append(NotTested("device", device.name, error.message, error.hint, device.required))
    return tuple(usable), emulators, missing


def _unaffected(cases: tuple[Case, ...]) -> list[NotTested]:
    return [
        NotTested("case", case.id, "the injected fault is in another model", "run without --inject", required=False)
        for case in cases
    ]


def _engine(
    source: EngineSource, matrix: Matrix, models: dict[str, Path], root: Path, console: Console
) -> EngineUnderTest:
    built = bundles(source, (abi for _, abi in matrix.devices), console.say)
    files = {entry.case.id: model_file(entry, source, models[entry.case.id], root) for entry in matrix.cases}
    return EngineUnderTest(source, built, files)


def _base(
    source: EngineSource | None, options: GateOptions, matrix: Matrix, console: Console
) -> EngineUnderTest | None:
    if source is None:
        return None
    known = [(device, abi) for device, abi in matrix.devices if abi in source.manifest.abis]
    models = {entry.case.id: entry.onnx for entry in matrix.cases}
    return _engine(source, replace(matrix, devices=tuple(known)), models, options.root, console)


def _canonical(options: GateOptions, matrix: Matrix, console: Console) -> dict[str, Trace]:
    """Canonical traces by case, each made once by the referee on this host."""
    source = head_source(options.root, REFEREE, None)
    abi = _host_abi()
    device = referee_device(abi)
    built = bundles(source, [abi], console.say)
    models = {entry.case.id: model_file(entry, source, entry.onnx, options.root) for entry in matrix.cases}
    referee = EngineUnderTest(source, built, models)
    jobs = [case_job(replace(matrix, profile=None), referee, entry, device, abi, "head") for entry in matrix.cases]
    with ThreadPoolExecutor(2) as pool:
        traces = pool.map(lambda job: canonical_trace(job, cache_root()), jobs)
        return {job.case: trace for job, trace in zip(jobs, traces, strict=True)}


def _host_abi() -> str:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        flags = ""
    return REFEREE_ABIS[0] if " avx2" in flags and " fma" in flags and " bmi2" in flags else REFEREE_ABIS[1]


def _run(farm: FarmSession, planned: GatePlan, jobs: list[JobSpec], console: Console, confirms: str = "") -> RunSummary:
    """Drive jobs to their end; ``confirms``: they repeat what failed in that run."""
    options = planned.options
    spec = RunSpec(
        suite=options.suite,
        engine=options.engine,
        command=options.command,
        payload={**planned.payload(), **({"confirms": confirms} if confirms else {})},
        priority=options.priority,
        kind="confirm" if confirms else "gate",
    )
    run_id = create_run(farm.store, spec, jobs)
    return farm.run(run_id, on_update=console.jobs)
