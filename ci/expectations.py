"""``expectations/CHIP-MODEL/CASE.yaml``: accepted results, reviewed in the pull request that changes them."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, field_validator

from consistency.records import Expectation
from engine.contract.errors import ConfigError
from farm.config import Strict, load
from farm.inventory import NAME


class ExpectationFile(Strict):
    """One accepted result. ``max_scaled`` maps a failing layer to its extent when accepted."""

    case: str
    chip_model: str
    engine: str
    kind: Literal["accepted", "known_failure"]
    owner: str = Field(min_length=1)
    reason: str = Field(min_length=3)
    accepted: datetime.date
    expires: datetime.date | None = None
    run: str
    outputs: dict[str, str]
    layers_digest: str | None = None
    first_deviating: tuple[str, ...] = ()
    max_scaled: dict[str, float] = Field(default_factory=dict)
    tasks: tuple[str, ...] = ()

    @field_validator("outputs")
    @classmethod
    def _digests(cls, outputs: dict[str, str]) -> dict[str, str]:
        for name, digest in outputs.items():
            if len(digest) != 32 or not set(digest) <= set("0123456789abcdef"):
                raise ValueError(f"{name}: {digest!r} is not a digest of 32 hexadecimal digits")
        return outputs

    def expectation(self) -> Expectation:
        """The same, as ``consistency`` takes it."""
        return Expectation(
            case=self.case,
            chip_model=self.chip_model,
            outputs=self.outputs,
            layers_digest=self.layers_digest,
            first_deviating=self.first_deviating,
            max_scaled=self.max_scaled,
            owner=self.owner,
            reason=self.reason,
            expires=self.expires.isoformat() if self.expires else None,
            kind=self.kind,
            tasks=self.tasks,
        )


def expectation_path(root: Path, chip_model: str, case: str) -> Path:
    """Where the expectation of a case lies."""
    for name in (chip_model, case):
        if not NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot name an expectation file", hint="use plain names in suites and fleets")
    return root / "expectations" / chip_model / f"{case}.yaml"


def find_expectation(root: Path, chip_model: str, case: str, engine: str) -> Expectation | None:
    """The reviewed expectation of a case on a chip and model, if there is one for this engine."""
    path = expectation_path(root, chip_model, case)
    if not path.is_file():
        return None
    entry = load(path, ExpectationFile)
    if (entry.case, entry.chip_model) != (case, chip_model):
        raise ConfigError(
            f"{path}: speaks of {entry.chip_model}/{entry.case}", hint="the file's place and its content must agree"
        )
    return entry.expectation() if entry.engine == engine else None


class _Dumper(yaml.SafeDumper):
    """As PyYAML's, but text with line breaks that it would fold into spaces (NEL, LS, PS) is written escaped."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if re.search("[\x85\u2028\u2029]", value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def write_expectation(root: Path, entry: ExpectationFile) -> Path:
    """Write one expectation, visible only when complete; returns its path."""
    path = expectation_path(root, entry.chip_model, entry.case)
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "# Accepted result: reviewed in the pull request that changes it. `lockstep accept` writes this file.\n"
    document = entry.model_dump(mode="json")
    text = header + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.rename(path)
    return path
