"""The sweep: every suite with every engine on every device, as gates whose jobs run together.

A sweep plans all its gates first, then runs what no earlier run of the same sweep has done, then judges each gate
from all of them.
"""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ci.console import Console
from ci.gate import GatePlan, conclude, prepare_gate
from ci.options import GateOptions
from ci.plan import payload as fleet_payload
from ci.runfolder import GateRun
from ci.sweeptable import cases_words
from engine.contract.errors import ConfigError, InfraError, LockstepError, StoreError, UsageError
from farm.config import nearest
from farm.driving import check_driving
from farm.engines import load_engine
from farm.inventory import load_fleet
from farm.jobs import JobSpec, Priority, RunSummary, RunView
from farm.secrets import redact
from farm.session import FarmSession
from farm.suites import find_suite, load_suite
from farm.sweeps import SweepRuns, end
from reports import ReportError


@dataclass(frozen=True)
class SweepRequest:
    """What a sweep was asked; kept with it, so that it can be gone on with. Empty selections mean everything."""

    suites: tuple[str, ...]
    engines: tuple[str, ...]
    devices_file: str
    devices: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    profile: str | None = None

    @classmethod
    def of(cls, document: dict[str, Any]) -> SweepRequest:
        """From the store."""
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in document.items()
        }
        return cls(**given)

    def document(self) -> dict[str, Any]:
        """For the store."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]  # tuples become lists, as they come back


@dataclass(frozen=True)
class Part:
    """One suite with one engine: its plan, or why there is none."""

    suite: str
    engine: str
    plan: GatePlan | None = None
    error: LockstepError | None = None

    @property
    def name(self) -> str:
        """How its folder and its jobs are called."""
        return f"{Path(self.suite).stem}-{Path(self.engine).stem}"

    def jobs(self) -> list[JobSpec]:
        """The jobs of the plan, as the gate would run them."""
        return self.plan.jobs() if self.plan else []


@dataclass(frozen=True)
class SweepRun:
    """A finished sweep: where its files lie and what it decided."""

    folder: Path
    document: dict[str, Any]

    @property
    def exit_code(self) -> int:
        """As a gate's: 2, 1, 3, 0, the first that any part has."""
        code: int = self.document["exit_code"]
        return code


def everything(root: Path, suites: Sequence[str], engines: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The suites and engines asked for, all of ``suites/`` and ``engines/`` where none is; each must be readable."""
    found = tuple(suites) or tuple(sorted(path.stem for path in (root / "suites").glob("*.yaml")))
    tried = tuple(engines) or tuple(sorted(path.stem for path in (root / "engines").glob("*.yaml")))
    for name, folder, kind in ((found, "suites", "suite"), (tried, "engines", "engine")):
        if not name:
            raise UsageError(f"no {kind} to sweep: {folder}/ is empty", hint="run it at the root of the repository")
    for suite in found:
        load_suite(find_suite(root / "suites", suite))
    for engine in tried:
        load_engine(root / "engines", engine)
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(tried))


def check_selection(request: SweepRequest) -> None:
    """Refuse device, chip and tier names that the fleet does not have, before anything is built."""
    fleet = load_fleet(Path(request.devices_file)).devices
    for kind, asked, known in (
        ("device", request.devices, {device.name for device in fleet}),
        ("chip", request.chips, {device.chip for device in fleet}),
        ("tier", request.tiers, {device.tier for device in fleet}),
    ):
        for name in asked:
            if name not in known:
                words = f"unknown {kind} {name!r}: {nearest(name, sorted(known))}"
                raise UsageError(words, hint="`lockstep devices` lists the fleet")


def run_sweep(
    sweep: RunView, request: SweepRequest, root: Path, out: Path, console: Console, farm: FarmSession
) -> SweepRun:
    """Plan, run what is missing, judge and report.

    ``RunCancelled`` when somebody ended the sweep, ``InfraError`` when another place drives it by now.
    """
    parts = _prepare(sweep, request, root, out, console, lambda: check_driving(farm.store, sweep))
    fleet = load_fleet(Path(request.devices_file))
    chosen = {device.name for part in parts if part.plan for device, _ in part.plan.matrix.devices}
    payload = fleet_payload([device for device in fleet.devices if device.name in chosen], fleet.health)
    runs = SweepRuns(farm.store, sweep, lambda run_id: farm.run(run_id, on_update=console.jobs), payload)
    jobs = together(parts)
    console.say(f"{len(jobs)} jobs in {len(parts)} parts, {len(runs.missing(jobs))} of them still to do")
    runs.drive(jobs)
    folder = out / f"sweep-{sweep.id}"
    slots = farm.slots
    entries = [_conclude(part, runs, console, slots, folder / part.name) for part in parts]
    document = {
        "schema": 1,
        "sweep": sweep.id,
        "exit_code": exit_code([entry["exit_code"] for entry in entries]),
        "jobs": len(jobs),
        "taken_over": runs.taken_over,
        "parts": entries,
    }
    _write(folder, document)
    end(farm.store, sweep, report=str((folder / "summary.md").absolute()), exit_code=document["exit_code"])
    return SweepRun(folder, document)


def together(parts: Sequence[Part]) -> list[JobSpec]:
    """The jobs of all parts as one plan: case names say which part, and a device takes one part after the other."""
    jobs: list[JobSpec] = []
    first = 0
    for part in parts:
        own = part.jobs()
        jobs += [replace(_named(part, job), position=first + job.position) for job in own]
        first += 1 + max((job.position for job in own), default=0)
    return jobs


def exit_code(codes: Sequence[int]) -> int:
    """What a sweep leaves with, from what its parts would: the first of 2, 1, 3 that is there."""
    return next((code for code in (2, 1, 3) if code in codes), 0)


def _prepare(
    sweep: RunView, request: SweepRequest, root: Path, out: Path, console: Console, check: Callable[[], None]
) -> list[Part]:
    parts = []
    for suite in request.suites:
        for engine in request.engines:
            check()
            console.say(f"planning {engine} on {suite}")
            options = GateOptions(
                root=root,
                suite=suite,
                engine=engine,
                profile=request.profile,
                devices=request.devices,
                chips=request.chips,
                tiers=request.tiers,
                devices_file=Path(request.devices_file),
                out=out,
                priority=Priority.NIGHTLY,
                command=sweep.command,
            )
            try:
                planned = prepare_gate(options, console)
            except LockstepError as error:  # one engine that does not build must not end the night
                console.say(f"{engine} on {suite} cannot be tested: {error.message}")
                parts.append(Part(suite, engine, error=error))
                continue
            parts.append(Part(suite, engine, plan=planned))
            try:
                planned.check_expectations()
            except ConfigError as error:  # there is time to mend it while its jobs run
                console.say(f"{engine} on {suite} cannot be judged unless this is mended before its end: {error}")
    return parts


def _conclude(part: Part, runs: SweepRuns, console: Console, slots: int, folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {"suite": part.suite, "engine": part.engine, "name": part.name}
    if part.plan is None:
        assert part.error is not None  # noqa: S101 - a part has one of the two
        reason, code = part.error.message, part.error.exit_code
        # An engine without a build for any device of the fleet is a gap in the fleet, not a mistake of the caller
        code = 3 if isinstance(part.error, UsageError) else code
        return {**entry, "status": "not tested", "exit_code": code, "reason": reason, "next_step": part.error.hint}

    def drive(jobs: list[JobSpec]) -> RunSummary:
        runs.drive([_named(part, job) for job in jobs])
        return runs.summary(jobs)

    shutil.rmtree(folder, ignore_errors=True)  # of an earlier end of the same sweep
    try:
        written = conclude(part.plan, runs.summary(part.jobs()), drive, console, slots, folder)
    except Exception as error:  # what is wrong with one part must not take the report of the others
        runs.check()
        if isinstance(error, (InfraError, OSError)) and not isinstance(error, StoreError):
            raise  # of the farm or of this host: the sweep stays unfinished. The store answered just now
        console.say(f"{part.engine} on {part.suite} cannot be judged: {error}")
        return {**entry, "status": "not judged", **_trouble(error, folder)}
    return {**entry, **_counts(written), "report": f"{part.name}/report/index.html"}


def _trouble(error: Exception, folder: Path) -> dict[str, Any]:
    """Why a part whose jobs have ended has no verdict, and what to do so that it gets one."""
    if isinstance(error, (LockstepError, ReportError)):
        code = error.exit_code if isinstance(error, LockstepError) else 3
        reason, first = error.message, error.hint
    else:
        code, reason = 3, f"an unexpected fault inside lockstep: {type(error).__name__}: {error}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fault.txt").write_text(redact("".join(traceback.format_exception(error))))
        first = f"report what {folder / 'fault.txt'} says"
    again = "`lockstep sweep --resume` with the id of this sweep judges it again and repeats no job"
    return {"exit_code": code, "reason": redact(reason), "next_step": f"{first}; then {again}"}


def _named(part: Part, job: JobSpec) -> JobSpec:
    return replace(job, case=f"{part.name}/{job.case}")


def _counts(run: GateRun) -> dict[str, Any]:
    statuses: dict[str, int] = {}
    for case in run.document["cases"]:
        statuses[case["status"]] = statuses.get(case["status"], 0) + 1
    return {"status": run.document["status"], "exit_code": run.outcome.exit_code, "cases": statuses}


def _write(folder: Path, document: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [
        f"# Sweep {document['sweep']}",
        "",
        "| suite | engine | verdict | cases | report |",
        "|---|---|---|---|---|",
    ]
    for part in document["parts"]:
        report = f"[report]({part['report']})" if "report" in part else _cell(part["reason"])
        lines.append(
            f"| {_cell(part['suite'])} | {_cell(part['engine'])} | {part['status']} | {cases_words(part)} | {report} |"
        )
    lines += ["", f"{document['jobs']} jobs; exit code {document['exit_code']}.", ""]
    (folder / "summary.md").write_text("\n".join(lines))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
