"""What a gate is asked, and which part of the matrix that selects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.contract.errors import UsageError
from farm.config import nearest
from farm.engines import EngineManifest
from farm.inventory import Device, Fleet
from farm.jobs import Priority
from farm.suites import Case, Suite


@dataclass(frozen=True)
class GateOptions:
    """One ``lockstep gate`` as asked. Selections are empty when everything is asked for."""

    root: Path
    suite: str = "smoke"
    engine: str = "refrt"
    artifacts: Path | None = None
    base: str | None = None
    inject: str | None = None
    profile: str | None = None
    devices: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    devices_file: Path = Path("devices.yaml")
    out: Path = Path("out")
    priority: Priority = Priority.INTERACTIVE
    command: str = "lockstep gate"


@dataclass(frozen=True)
class NotTested:
    """One part of the matrix that this run does not cover, and what to do about it."""

    kind: str
    name: str
    reason: str
    next_step: str
    required: bool


@dataclass(frozen=True)
class Selection:
    """Devices with the ABI each will run, cases, and what is left out."""

    devices: tuple[tuple[Device, str], ...]
    cases: tuple[Case, ...]
    not_tested: tuple[NotTested, ...]
    required_devices: tuple[str, ...]


def select(options: GateOptions, fleet: Fleet, suite: Suite, engine: EngineManifest) -> Selection:
    """Apply ``--device --chip --tier --case``; what is deselected is listed, never forgotten."""
    _known("device", options.devices, [device.name for device in fleet.devices])
    _known("chip", options.chips, [device.chip for device in fleet.devices])
    _known("tier", options.tiers, [device.tier for device in fleet.devices])
    for asked in options.cases:
        suite.case(asked)
    chosen: list[tuple[Device, str]] = []
    left: list[NotTested] = []
    required: list[str] = []
    for device in fleet.devices:
        abi = engine.abi_for(device.abis)
        if abi is None:
            left.append(_no_build(device, engine))
            continue
        if device.required:
            required.append(device.name)
        if _selected(options, device):
            chosen.append((device, abi))
        else:
            left.append(
                NotTested(
                    "device", device.name, "deselected on the command line", "leave the selection out", device.required
                )
            )
    cases = tuple(case for case in suite.cases if not options.cases or case.id in options.cases)
    for case in suite.cases:
        if case not in cases:
            left.append(NotTested("case", case.id, "deselected on the command line", "leave --case out", required=True))
    if not chosen:
        raise UsageError("the selection leaves no device to test", hint="`lockstep devices` lists the fleet")
    return Selection(tuple(chosen), cases, tuple(left), tuple(required))


def _selected(options: GateOptions, device: Device) -> bool:
    return (
        (not options.devices or device.name in options.devices)
        and (not options.chips or device.chip in options.chips)
        and (not options.tiers or device.tier in options.tiers)
    )


def _known(kind: str, asked: tuple[str, ...], known: list[str]) -> None:
    for name in asked:
        if name not in known:
            raise UsageError(
                f"unknown {kind} {name!r}: {nearest(name, sorted(set(known)))}",
                hint="`lockstep devices` lists the fleet",
            )


def _no_build(device: Device, engine: EngineManifest) -> NotTested:
    return NotTested(
        "engine-abi",
        device.name,
        f"engine {engine.name} declares no build for {', '.join(device.abis)}",
        f"add the ABI to engines/{engine.name}.yaml when the engine supports it",
        required=False,
    )
