"""Profiles by name: those of the code, and learned ones in ``thresholds/NAME.yaml``, reviewed like code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field

from consistency.thresholds import PROFILE_NAMES, Profile, profile
from consistency.thresholds.learned import HeldOut, OpFloor, learned_profile
from engine.contract.errors import ConfigError, UsageError
from farm.config import Strict, load, nearest

FOLDER = Path("thresholds")


class Rule(Strict):
    """One operator: its bound, and the evidence for it."""

    op: str = Field(min_length=1, max_length=100)
    dtype: Literal["float32"] = "float32"
    rtol: float = Field(gt=0.0, lt=1.0)
    observations: int = Field(ge=1)
    models: int = Field(ge=1)
    largest: float = Field(gt=0.0, lt=1.0)


class HeldOutModel(Strict):
    """One model judged by what the others taught."""

    model: str
    runs: int = Field(ge=1)
    false_alarms: int = Field(ge=0)


class Evidence(Strict):
    """Where the numbers come from."""

    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    command: str
    models: tuple[str, ...]
    engines: tuple[str, ...]
    versions: dict[str, str]
    runs: int = Field(ge=1)
    layers: int = Field(ge=1)


class LearnedFile(Strict):
    """``thresholds/NAME.yaml``."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    base: Literal["fp32"] = "fp32"
    false_alarms_per_run: float = Field(gt=0.0, lt=1.0)
    evidence: Evidence
    held_out: tuple[HeldOutModel, ...]
    rules: tuple[Rule, ...] = Field(min_length=1)

    def profile(self) -> Profile:
        """What judges."""
        floors = [OpFloor(rule.op, rule.rtol, rule.observations, rule.models, rule.largest) for rule in self.rules]
        return learned_profile(self.name, floors, profile(self.base))


def learned_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """Names of the learned profiles."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def read_learned(name: str, folder: Path = FOLDER) -> LearnedFile:
    """The learned profile ``name``, or the one in the file when ``name`` ends in ``.yaml``."""
    path = Path(name) if name.endswith(".yaml") else folder / f"{name}.yaml"
    if not path.is_file():
        known = list(learned_names(folder))
        raise UsageError(
            f"unknown learned profile {name!r}: {nearest(name, known)}", hint="`lockstep thresholds learn` makes one"
        )
    found = load(path, LearnedFile)
    if found.name != path.stem:
        raise ConfigError(f"{path}: name: {found.name!r} is not the file's own", hint="rename one of them")
    if found.name in PROFILE_NAMES:
        raise ConfigError(f"{path}: name: {found.name!r} is a profile of the code", hint="choose another name")
    return found


def find_profile(name: str, folder: Path = FOLDER) -> Profile:
    """A profile of the code or a learned one; ``UsageError`` with the nearest name."""
    if name in PROFILE_NAMES:
        return profile(name)
    known = [*PROFILE_NAMES, *learned_names(folder)]
    if not name.endswith(".yaml") and name not in known:
        raise UsageError(f"unknown profile {name!r}: {nearest(name, known)}", hint=f"known: {', '.join(known)}")
    return read_learned(name, folder).profile()


def learned_text(name: str, rate: float, evidence: Evidence, held: Sequence[HeldOut], floors: Sequence[OpFloor]) -> str:
    """The file's text; the same evidence gives the same bytes."""
    document = LearnedFile(
        name=name,
        false_alarms_per_run=rate,
        evidence=evidence,
        held_out=tuple(HeldOutModel(model=e.model, runs=e.runs, false_alarms=e.false_alarms) for e in held),
        rules=tuple(
            Rule(
                op=floor.op,
                rtol=floor.rtol,
                observations=floor.observations,
                models=floor.models,
                largest=float(f"{floor.largest:.3g}"),
            )
            for floor in floors
        ),
    )
    head = "# Written by `lockstep thresholds learn`; review it like code: docs/thresholds.md.\n"
    return head + yaml.safe_dump(document.model_dump(mode="json"), sort_keys=False, width=110)


def described(name: str, folder: Path = FOLDER) -> str:
    """A profile in words: every rule for floats, and the evidence of a learned one."""
    found = find_profile(name, folder)
    lines = [f"{'operator':24} {'rtol':>9} {'observations':>13} {'models':>7} {'largest seen':>13}"]
    if name in PROFILE_NAMES:
        rules: dict[str, Rule] = {}
    else:
        learned = read_learned(name, folder)
        rules = {rule.op: rule for rule in learned.rules}
        lines = [*_evidence(learned), "", *lines]
    for op in sorted(found.by_op):
        known = rules.get(op)
        tail = f" {known.observations:13} {known.models:7} {known.largest:13.2e}" if known else ""
        lines.append(f"{op:24} {found.by_op[op].rtol:9.1e}{tail}")
    return "\n".join([*lines, f"{'any other':24} {found.floats.rtol:9.1e}"])


def _evidence(learned: LearnedFile) -> list[str]:
    told = learned.evidence
    held = ", ".join(f"{entry.model} {entry.false_alarms} of {entry.runs}" for entry in learned.held_out)
    return [
        f"{learned.name}: at most {learned.false_alarms_per_run:g} false alarms a run, over {learned.base}",
        f"learned {told.date} from {told.layers} layers of {told.runs} runs of {', '.join(told.models)}",
        f"engines: {', '.join(told.engines)}",
        f"held-out models, runs blamed: {held}",
        f"command: {told.command}",
    ]


def changes(a: str, b: str, folder: Path = FOLDER) -> tuple[list[str], bool]:
    """A line for each bound that differs from profile ``a`` to ``b``, and whether some bound gets wider."""
    old, new = find_profile(a, folder), find_profile(b, folder)
    lines, wider = [], False
    for op in [*sorted({*old.by_op, *new.by_op}), "any other"]:
        before, after = old.by_op.get(op, old.floats).rtol, new.by_op.get(op, new.floats).rtol
        if before != after:
            wider = wider or after > before
            factor = f"{after / before:.2g} times" if before else "was exact"
            lines.append(f"{op:24} {before:.1e} → {after:.1e} ({factor}{', WIDER' if after > before else ''})")
    return lines, wider
