"""Learned noise floors: ``thresholds/NAME.yaml``, reviewed like code; found by name or path, and sent along with jobs.

A learned profile is called ``learned:NAME@DIGEST``, so that a verdict says by which numbers it was reached. A process
knows those that it has read itself; a worker reads them out of the job.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from consistency.thresholds import PROFILE_NAMES, IntegerRule, Profile, profile
from consistency.thresholds.learned import LearnedRule, learned_profile
from consistency.thresholds.profile import FLOAT_TYPES, INTEGER_TYPES
from consistency.thresholds.registry import adopt
from engine.contract.errors import ConfigError, UsageError
from farm.config import Strict, load, nearest, validate

FOLDER = Path("thresholds")
PREFIX = "learned:"
MAX_TEXT = 1 << 20

Word = Annotated[str, Field(min_length=1, max_length=200)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0, le=2**40)]


class Integers(Strict):
    """Bounds of an integer layer."""

    max_lsb: int = Field(ge=0, le=2**16)
    max_differing: Share


class Rule(Strict):
    """One operator in one dtype on one backend: its bound, and the evidence for it (``LearnedRule`` explains each)."""

    op: Word
    dtype: Word
    backend: Word
    rtol: float | None = Field(default=None, gt=0.0, lt=1.0)
    fitted: float | None = Field(default=None, gt=0.0, lt=1e9)
    sharper_above: Share | None = None
    growth: Share = 0.0
    longest: int = Field(ge=0, le=2**40)
    integer: Integers | None = None
    capped: bool = False
    layers: int = Field(ge=1, le=2**40)
    families: int = Field(ge=1, le=10_000)
    largest: float = Field(gt=0.0, lt=1e6)
    largest_lsb: Count | None = None
    beyond: Count = 0

    @model_validator(mode="after")
    def _one_kind(self) -> Rule:
        if self.dtype not in FLOAT_TYPES | INTEGER_TYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(sorted(FLOAT_TYPES | INTEGER_TYPES))}")
        wanted, other = ("rtol", "integer") if self.dtype in FLOAT_TYPES else ("integer", "rtol")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise ValueError(f"a rule for {self.dtype} has {wanted} and no {other}")
        return self

    def learned(self) -> LearnedRule:
        """The rule as it judges."""
        told = self.model_dump(exclude={"integer"})
        return LearnedRule(**told, integer=IntegerRule(**self.integer.model_dump()) if self.integer else None)


class HeldOutFamily(Strict):
    """One family judged by what the others taught."""

    family: Word
    models: tuple[Word, ...]
    runs: int = Field(ge=1)
    blamed: Count
    by_base: Count


class Achieved(Strict):
    """All held-out runs. ``added``: blamed though the base passes; with intervals of 95 % (Clopper and Pearson)."""

    runs: int = Field(ge=1)
    blamed: Count
    by_base: Count
    added: Count
    added_interval: tuple[Share, Share]
    families: int = Field(ge=1)
    families_added: Count
    families_added_interval: tuple[Share, Share]


class EngineRan(Strict):
    """One engine on one chip: the models it ran, and in how many runs."""

    engine: Word
    chip: Word
    models: tuple[Word, ...]
    runs: int = Field(ge=1)


class Evidence(Strict):
    """Where the numbers come from."""

    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    command: str = Field(max_length=2000)
    families: dict[Word, tuple[Word, ...]]
    engines: tuple[EngineRan, ...]
    versions: dict[Word, Word]
    runs: int = Field(ge=1)
    layers: int = Field(ge=1)


class LearnedFile(Strict):
    """``thresholds/NAME.yaml``."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    base: Literal["fp32", "fp16", "bf16", "int8"]
    false_alarms_per_run: float = Field(gt=0.0, lt=1.0)
    margin: float = Field(ge=1.0, lt=1e9)
    excesses: dict[Word, float]
    evidence: Evidence
    held_out: tuple[HeldOutFamily, ...]
    achieved: Achieved
    rules: tuple[Rule, ...] = Field(min_length=1, max_length=10_000)

    @field_validator("rules")
    @classmethod
    def _once(cls, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        keys = [(rule.op, rule.dtype, rule.backend) for rule in rules]
        twice = next((key for key in keys if keys.count(key) > 1), None) if len(set(keys)) < len(keys) else None
        if twice:
            raise ValueError(f"{' '.join(twice)} is given twice")
        return rules

    @property
    def full_name(self) -> str:
        """The profile's name: the file's, and a digest of what judges."""
        return f"{PREFIX}{self.name}@{hashlib.sha256(self.text().encode()).hexdigest()[:12]}"

    def text(self) -> str:
        """What a job carries of it: everything, in one line."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    def profile(self) -> Profile:
        """What judges."""
        return learned_profile(self.full_name, (rule.learned() for rule in self.rules), profile(self.base))


def learned_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """Names of the learned profiles."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def read_learned(name: str, folder: Path = FOLDER) -> LearnedFile:
    """The learned profile ``name``, or the one in the file when ``name`` ends in ``.yaml``."""
    name = name.removeprefix(PREFIX)
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
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
    """A profile of the code, or a learned one by name or path; ``UsageError`` with the nearest name."""
    if name in PROFILE_NAMES:
        return profile(name)
    known = [*PROFILE_NAMES, *learned_names(folder)]
    if not name.startswith(PREFIX) and not name.endswith((".yaml", ".yml")) and name not in known:
        raise UsageError(f"unknown profile {name!r}: {nearest(name, known)}", hint=f"known: {', '.join(known)}")
    return profile(know(read_learned(name, folder)))


def know(learned: LearnedFile) -> str:
    """Make a learned profile known to this process; the name under which ``consistency.thresholds.profile`` has it."""
    found = adopt(learned.profile())
    _TEXTS[found] = learned.text()
    return found


def text_of(name: str) -> str:
    """What a job carries so that its worker knows the profile ``name``: empty for a profile of the code."""
    return _TEXTS.get(name, "")


def recall(name: str, folder: Path = FOLDER) -> str:
    """``text_of`` for the profile of an earlier run; ``UsageError`` when its file is no longer what it was."""
    if not name.startswith(PREFIX) or name in _TEXTS:
        return text_of(name)
    learned = read_learned(name.removeprefix(PREFIX).partition("@")[0], folder)
    if learned.full_name != name:
        raise UsageError(
            f"{folder}: the run was judged by {name}, the file now says {learned.full_name}",
            hint="take the file back from version control, or run again",
        )
    return text_of(know(learned))


@cache
def know_text(text: str) -> str:
    """The profile of a job that came from elsewhere; empty for an empty text. ``ConfigError`` for a malformed one."""
    if not text:
        return ""
    if len(text) > MAX_TEXT:
        raise ConfigError(f"the job's floors: {len(text)} characters", hint=f"at most {MAX_TEXT} are taken")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the job's floors are no JSON: {error}", hint="plan the run again") from error
    return know(validate(document, LearnedFile, "the job's floors"))


_TEXTS: dict[str, str] = {}
