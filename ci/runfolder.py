"""``out/RUN``: what a finished run leaves behind, written whole, with ``out/latest`` pointing at it."""

from __future__ import annotations

import datetime
import os
import secrets
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ci.builds import EngineSource
from ci.console import Phases
from ci.document import (
    PairOutcome,
    case_entry,
    coverage,
    device_entry,
    host_facts,
    layer_rows,
    pair_entry,
    traffic,
)
from ci.judge import CaseOutcome
from ci.options import GateOptions, NotTested, Selection
from ci.outputs import OutputTensors
from ci.plan import EngineUnderTest, Matrix
from ci.prepare import PreparedCase
from consistency.chips import bit_identity, compare_fleet, of_unlike_precision
from consistency.gate import gate_outcome
from consistency.noise import chip_noise
from consistency.records import GateCase, GateOutcome
from consistency.thresholds import profile
from farm.inventory import Device, load_fleet
from farm.jobs import RunSummary
from reports import render, write_layers, write_verdict


@dataclass(frozen=True)
class GateRun:
    """A finished gate: where its files lie and what it decided."""

    folder: Path
    document: dict[str, Any]
    outcome: GateOutcome


@dataclass
class RunFolder:
    """Everything the documents of a run are written from."""

    options: GateOptions
    started: datetime.datetime
    selection: Selection
    head: EngineSource
    base: EngineUnderTest | None
    matrix: Matrix
    outcomes: list[CaseOutcome]
    left: tuple[NotTested, ...]
    summary: RunSummary
    slots: int
    folder: Path | None = None

    def write(self, phases: Phases) -> GateRun:
        """Write ``out/RUN`` and point ``out/latest`` at it; with a ``folder`` of its own, write that and no more."""
        folder = self.folder or self.options.out / self._name()
        folder.mkdir(parents=True)
        outcome = self._outcome()
        document = self._document(outcome, phases)
        write_layers(folder / "layers.parquet", layer_rows(self.outcomes, self.matrix))
        write_verdict(folder / "verdict.json", document)
        render(folder)
        if self.folder is None:
            _point(self.options.out / "latest", folder.name)
        return GateRun(folder, document, outcome)

    def _name(self) -> str:
        return f"{self.started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"

    def _outcome(self) -> GateOutcome:
        required = set(self.selection.required_devices)
        cases = [
            GateCase(
                entry.prepared.case.id, entry.device.name, entry.status, entry.device.name in required, entry.reason
            )
            for entry in self.outcomes
        ]
        pairs = [
            GateCase(pair.case, f"{pair.a} against {pair.b}", pair.status, required=False, reason=pair.verdict.reason)
            for pair in self.pairs
        ]
        missing = [
            f"{entry.kind} {entry.name} was not tested: {entry.reason}; {entry.next_step}"
            for entry in self.left
            if entry.required
        ]
        return gate_outcome(cases, chip_pairs=pairs, required_missing=missing)

    @cached_property
    def pairs(self) -> list[PairOutcome]:
        """Every two devices compared on every case."""
        pairs: list[PairOutcome] = []
        for prepared in self.matrix.cases:
            answered = [entry for entry in self._answered(prepared) if entry.answer["layers"]]
            seen = {
                entry.device.name: [layer.observed for layer in entry.verdict.layers if layer.observed]
                for entry in answered
            }
            rules = profile(self.matrix.profile or prepared.case.profile)
            tensors = OutputTensors(answered, (prepared.golden, self.matrix.canonical.get(prepared.case.id)))
            reference = self.matrix.references[prepared.case.id]
            names = [layer.id for layer in reference]
            noise = {
                entry.device.name: chip_noise(entry.answer.get("noise", {}), entry.verdict.inner, names)
                for entry in answered
            }
            compared = compare_fleet(seen, reference, rules, noise, tensors.apart)
            ran = {entry.device.name: str(entry.answer["effective"]["precision"]) for entry in answered}
            for (a, b), found in compared.items():
                verdict = found if ran[a] == ran[b] else of_unlike_precision(found, ran[a], ran[b])
                pairs.append(PairOutcome(a, b, prepared.case.id, verdict))
        return pairs

    def _answered(self, prepared: PreparedCase) -> list[CaseOutcome]:
        """The devices' own answers: one that a unit gave for another is no second witness."""
        own = [entry for entry in self.outcomes if entry.prepared.case.id == prepared.case.id]
        return [entry for entry in own if entry.answer and entry.unit == entry.device.name]

    def _identity(self) -> list[dict[str, Any]]:
        entries = []
        for prepared in self.matrix.cases:
            answered = self._answered(prepared)
            digests = {
                entry.device.name: {record["id"]: record["digest"] for record in entry.answer["layers"]}
                or {record["name"]: record["digest"] for record in entry.answer["outputs"]}
                for entry in answered
            }
            dispatch = {
                entry.device.name: " ".join(entry.answer["fingerprint"][key][:16] for key in ("dispatch", "bundle"))
                for entry in answered
            }
            found = bit_identity(digests, dispatch, self.matrix.references[prepared.case.id])
            groups = [
                {"devices": list(g.devices), "dispatches": list(g.dispatches), "layers": g.layers} for g in found.groups
            ]
            entries.append(
                {
                    "case": prepared.case.id,
                    "groups": groups,
                    "identical_layers": found.identical_layers,
                    "total_layers": found.total_layers,
                    "first_split_layer": found.first_split_layer,
                }
            )
        return entries

    def _document(self, outcome: GateOutcome, phases: Phases) -> dict[str, Any]:
        finished = datetime.datetime.now(datetime.UTC)
        return {
            "schema": 1,
            "status": outcome.status,
            "exit_code": outcome.exit_code,
            "run": {
                "id": self.summary.run_id,
                "started": self.started.isoformat(timespec="seconds"),
                "finished": finished.isoformat(timespec="seconds"),
                "seconds": (finished - self.started).total_seconds(),
                "command": self.options.command,
                "suite": self.options.suite,
                "engine": self.head.manifest.name,
                "engine_version": self._version(self.outcomes),
                "base": {"ref": self.options.base, "version": None} if self.options.base else None,
                "inject": self.options.inject,
                "host": host_facts(),
                "slots": self.slots,
                "runner_seconds": sum(o.answer["runner_seconds"] for o in self.outcomes if o.answer),
                "phases": [{"name": name, "seconds": seconds} for name, seconds in phases.taken],
            },
            "coverage": coverage(self.matrix, self.outcomes, self.selection.required_devices),
            "traffic": traffic(self.outcomes),
            "devices": self._devices(),
            "cases": [case_entry(entry) for entry in self.outcomes],
            "chip_pairs": [pair_entry(pair) for pair in self.pairs],
            "bit_identity": self._identity(),
            "not_tested": [asdict(entry) for entry in self.left],
            "notes": self._notes(),
        }

    @staticmethod
    def _version(outcomes: list[CaseOutcome]) -> str | None:
        runners = {
            f"{o.answer['runner']['version']} {o.answer['runner']['build']}".strip() for o in outcomes if o.answer
        }
        return ", ".join(sorted(runners)) or None

    def _notes(self) -> list[str]:
        notes = []
        if self.options.inject and not any(entry.verdict and entry.verdict.first_deviating for entry in self.outcomes):
            notes.append(f"The fault {self.options.inject} is ineffective: no layer left its bounds. Choose another.")
        if any(entry.device.emulated for entry in self.outcomes):
            notes.append("Emulated devices prove answers, never speed: their times are not performance evidence.")
        return notes

    def _devices(self) -> list[dict[str, Any]]:
        fleet = load_fleet(self.options.devices_file)
        left = {entry.name: entry for entry in self.left if entry.kind in ("device", "engine-abi")}
        abis = {device.name: abi for device, abi in self.selection.devices}
        return [
            device_entry(
                device.name,
                self.outcomes,
                listed_device(device, abis.get(device.name), self.selection),
                left.get(device.name),
            )
            for device in fleet.devices
        ]


def stood_in_for(outcomes: list[CaseOutcome], required: tuple[str, ...]) -> list[NotTested]:
    """The devices that ran nothing because other units answered for them."""
    tested = {entry.unit for entry in outcomes if entry.answer}
    found = {entry.device.name: entry for entry in outcomes if entry.answer and entry.device.name not in tested}
    return [
        NotTested(
            "device",
            name,
            f"{entry.job.moved or 'it failed'}; its cases ran on {entry.unit}",
            f"`lockstep devices show {name}`; give a spare unit `required: false`",
            name in required,
        )
        for name, entry in found.items()
    ]


def listed_device(device: Device, abi: str | None, selection: Selection) -> dict[str, Any]:
    """What the inventory says of a device."""
    return {
        "name": device.name,
        "chip": device.chip,
        "model": device.model,
        "tier": device.tier,
        "abi": abi,
        "link": device.link.kind,
        "emulated": not device.real,
        "required": device.name in selection.required_devices,
    }


def _point(link: Path, target: str) -> None:
    """Let ``latest`` name the newest run, atomically."""
    part = link.with_name(f".latest.{os.getpid()}")
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    part.replace(link)
