"""What one job carries to a worker: JSON in the job table, checked on the way in and out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from agents.deployment import Blob
from engine.contract.request import Limits
from farm.conditions import Conditions
from farm.config import Strict
from farm.inventory import Device


class FileRef(Strict):
    """A host file named by its hash."""

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)
    executable: bool = False

    def blob(self) -> Blob:
        """The same, as agents take it."""
        return Blob(Path(self.path), self.sha256, self.size, self.executable)


class BundleRef(Strict):
    """One engine build for one ABI, and how its runner is called."""

    engine: str
    version: str
    abi: str
    digest: str
    files: dict[str, FileRef] = Field(min_length=1)
    runner: tuple[str, ...]
    env: dict[str, str] = Field(default_factory=dict)
    level: Literal[0, 1, 2]


class InputRef(Strict):
    """One input tensor of a case."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: FileRef


class CaseJob(Strict):
    """One case on one device at one engine version."""

    case: str
    role: Literal["head", "base", "confirm", "cpu"]
    device: Device
    bundle: BundleRef
    model: FileRef
    model_format: Literal["refrt", "onnx"]
    inputs: tuple[InputRef, ...]
    golden: str = Field(description="folder of the golden trace")
    canonical: str | None = Field(default=None, description="folder of the canonical trace")
    golden_files: str | None = Field(default=None, description="blob that lists the golden trace's files, when shared")
    canonical_files: str | None = Field(default=None, description="the same of the canonical trace")
    profile: str
    floors: str = Field(default="", description="the learned profile that this is, as text: the worker has no file")
    backend: str = "cpu"
    precision: str = "fp32"
    iterations: int = Field(default=1, ge=1, le=1000)
    seconds: float = Field(default=Limits.seconds, gt=0)
    result_bytes: int = Field(default=Limits.result_bytes, ge=1024)
    conditions: Conditions = Conditions()
    emulators: dict[str, str] = Field(default_factory=dict, description="emulator name -> program on this host")
    python: str = ""

    def content(self) -> str:
        """Digest of what is run on what: two jobs with the same one give the same answer, wherever their files lie."""
        parts = {
            "case": self.case,
            "role": self.role,
            "device": self.device.model_dump(mode="json"),
            "bundle": [self.bundle.abi, self.bundle.digest, self.bundle.runner, self.bundle.env, self.bundle.level],
            "model": [self.model.sha256, self.model_format],
            "inputs": sorted([entry.name, entry.dtype, entry.shape, entry.file.sha256] for entry in self.inputs),
            "references": [Path(self.golden).name, Path(self.canonical).name if self.canonical else None],
            "measure": [self.profile, self.backend, self.precision, self.iterations],
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
