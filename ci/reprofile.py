"""What a repro folder holds: ``repro.json`` and the files it names, each with its hash."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field

from engine.contract.dtypes import ITEM_SIZES
from engine.contract.errors import UsageError
from engine.contract.names import inside
from engine.digest import file_sha256
from farm.config import Strict, validate
from farm.floors import know_text

MANIFEST = "repro.json"
REMAKE = "make the folder again: `lockstep repro make RUN -o DIR`"


class ReproTensor(Strict):
    """One raw tensor of the folder, little-endian in C order."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Repro(Strict):
    """One failing layer: where it failed, what it is given, what it must give."""

    case: str
    device: str
    layer: str
    op: str
    engine: str
    profile: str
    floors: str = ""
    backend: str
    precision: str
    model: str
    model_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    inputs: tuple[ReproTensor, ...]
    expected: ReproTensor
    reason: str = ""
    fingerprint: dict[str, str] = Field(default_factory=dict)


def load_repro(folder: Path) -> Repro:
    """The folder's manifest, its files checked; ``UsageError`` says what is missing or changed."""
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no repro can be read: {error}", hint=REMAKE) from error
    repro = validate(document, Repro, str(path))
    files = {repro.model: repro.model_sha256, **{entry.file: entry.sha256 for entry in (*repro.inputs, repro.expected)}}
    for name, sha256 in files.items():
        found = inside(folder, name)
        if not found.is_file():
            raise UsageError(f"{folder}: {name} is gone", hint=REMAKE)
        if file_sha256(found) != sha256:
            raise UsageError(f"{folder}: {name} is not the file that repro.json describes", hint=REMAKE)
    if know_text(repro.floors) not in ("", repro.profile):
        raise UsageError(f"{path}: its floors are not those of profile {repro.profile!r}", hint=REMAKE)
    strange = next((entry.dtype for entry in (*repro.inputs, repro.expected) if entry.dtype not in ITEM_SIZES), None)
    if strange is not None:
        raise UsageError(f"{path}: element type {strange!r} is not known", hint=REMAKE)
    return repro
