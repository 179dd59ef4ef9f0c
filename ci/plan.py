"""The plan: every case on every selected device, at head and, when asked, at base, as rows of the job table."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ci.builds import EngineSource
from ci.prepare import PreparedCase
from consistency.records import ReferenceLayer
from engine.contract.trace import Trace
from farm.casejob import BundleRef, CaseJob, FileRef
from farm.evidence import reference_layers
from farm.floors import text_of
from farm.health import Health
from farm.hosts import host_queue
from farm.inventory import Device, Link
from farm.jobs import JobSpec, Role
from farm.sharing import publisher_for
from farm.timeleft import job_seconds

#: Rough seconds per case, only to start the slowest devices first.
#: Most jobs of one case on one device: head, base, and the CPU beside another backend.
TURNS = 3
NATIVE_COST, EMULATED_COST = 1.0, 10.0


@dataclass(frozen=True)
class EngineUnderTest:
    """One engine version, ready to run: its bundles by ABI and its model files by case."""

    source: EngineSource
    bundles: Mapping[str, BundleRef]
    models: Mapping[str, FileRef]


@dataclass(frozen=True)
class Matrix:
    """What will run where."""

    devices: tuple[tuple[Device, str], ...]
    cases: tuple[PreparedCase, ...]
    canonical: Mapping[str, Trace] = field(default_factory=dict)
    emulators: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None

    @cached_property
    def references(self) -> Mapping[str, tuple[ReferenceLayer, ...]]:
        """By case, the golden's layers with what the canonical makes of them."""
        return {
            entry.case.id: reference_layers(entry.golden, self.canonical.get(entry.case.id)) for entry in self.cases
        }


def referee_device(abi: str) -> Device:
    """The host, as the device on which canonical traces are made."""
    return Device(
        name="referee", chip="host", model="host", tier="high", abis=(abi,), memory_mb=1, link=Link(kind="local")
    )


def case_job(
    matrix: Matrix, engine: EngineUnderTest, prepared: PreparedCase, device: Device, abi: str, role: str
) -> CaseJob:
    """One job: a case on a device at one engine version."""
    case = prepared.case
    canonical = matrix.canonical.get(case.id)
    return CaseJob(
        case=case.id,
        role=role,  # type: ignore[arg-type]  # pydantic checks it
        device=device,
        bundle=engine.bundles[abi],
        model=engine.models[case.id],
        model_format=engine.source.manifest.model_format,
        inputs=prepared.input_refs(),
        golden=str(prepared.golden.folder),
        canonical=str(canonical.folder) if canonical else None,
        profile=matrix.profile or case.profile,
        floors=text_of(matrix.profile or case.profile),
        backend="cpu" if role == Role.CPU else engine.source.manifest.backend,
        iterations=case.iterations,
        seconds=case.limits.seconds,
        result_bytes=case.limits.result_bytes,
        conditions=case.conditions,
        emulators=dict(matrix.emulators),
        python=sys.executable,
    )


def plan(matrix: Matrix, head: EngineUnderTest, base: EngineUnderTest | None, role: Role = Role.HEAD) -> list[JobSpec]:
    """All jobs, each device's in case order; base runs in turn with head on the same device,
    and the CPU backend behind another one where the model is quantised.

    Where workers are on other hosts, what the jobs need is published. ``ConfigError`` when it cannot be.
    """
    publisher = publisher_for(device for device, _ in matrix.devices)
    jobs = []
    for device, abi in matrix.devices:
        for index, prepared in enumerate(matrix.cases):
            turns = [(role, head)] + ([(Role.BASE, base)] if base and abi in base.bundles else [])
            if prepared.fp32 is not None and head.source.manifest.backend != "cpu":
                turns.append((Role.CPU, head))
            for turn, (which, engine) in enumerate(turns):
                job = case_job(matrix, engine, prepared, device, abi, str(which))
                shared = publisher.share(job) if publisher else job
                jobs.append(_spec(shared, which, TURNS * index + turn, prepared))
    return jobs


def _spec(job: CaseJob, role: Role, position: int, prepared: PreparedCase) -> JobSpec:
    return JobSpec(
        case=job.case,
        device=job.device.name,
        role=role,
        position=position,
        cost=EMULATED_COST if job.device.emulated else NATIVE_COST,
        timeout=job_seconds(job, sum(layer.nbytes for layer in prepared.golden.layers)),
        spec=job.model_dump(mode="json", exclude_unset=True),  # what was not said stays unsaid
        content=job.content(),
        queue=_queue(job.device),
    )


def confirmation(
    matrix: Matrix, engine: EngineUnderTest, wanted: Sequence[tuple[PreparedCase, Device, Device]]
) -> list[JobSpec]:
    """One more run of each case: what it is about is the first device, where it runs the second, a unit like it."""
    publisher = publisher_for(device for device, _ in matrix.devices)
    abis = {device.name: abi for device, abi in matrix.devices}
    jobs = []
    for index, (prepared, device, unit) in enumerate(wanted):
        job = case_job(matrix, engine, prepared, unit, abis[unit.name], str(Role.CONFIRM))
        spec = _spec(publisher.share(job) if publisher else job, Role.CONFIRM, index, prepared)
        content = hashlib.sha256(f"{spec.content} for {device.name}".encode()).hexdigest()
        jobs.append(replace(spec, spec={**spec.spec, "planned": device.name}, content=content))
    return jobs


def alike(a: Device, b: Device) -> bool:
    """Two units that can stand in for each other: one chip, one model, run in the same way."""
    return (a.chip_model, a.abis, a.threads, a.os) == (b.chip_model, b.abis, b.threads, b.os)


def payload(devices: Sequence[Device], health: Health) -> dict[str, Any]:
    """What the farm must know of a run: which devices can stand in for each other, and how patient it is."""
    units = {}
    for device in devices:
        first = next(other for other in devices if alike(other, device))
        if sum(alike(other, device) for other in devices) > 1:
            document = device.model_dump(mode="json", exclude_unset=True)
            units[device.name] = {"group": first.name, "device": document, "queue": _queue(device)}
    return {"units": units, "health": health.model_dump()}


def _queue(device: Device) -> str:
    return host_queue(device.at) if device.at else ""
