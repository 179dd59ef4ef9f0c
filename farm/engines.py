"""Engines under test: ``engines/NAME.yaml``, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from engine.contract.errors import UsageError
from farm.config import Strict, load, nearest


class AbiFiles(Strict):
    """The files of one ABI, relative to the build's output folder or the artifact folder."""

    files: tuple[str, ...] = Field(min_length=1)

    @field_validator("files")
    @classmethod
    def _inside(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        for name in files:
            if name.startswith("/") or ".." in Path(name).parts:
                raise ValueError(f"{name!r} must be a path inside the artifact folder")
        return files


class Build(Strict):
    """How artifacts are made. ``{python}``, ``{abi}`` and ``{out}`` are filled in; ``sources`` decide the cache key."""

    command: tuple[str, ...] = Field(min_length=1)
    sources: tuple[str, ...] = Field(min_length=1)


class EngineManifest(Strict):
    """One engine: how it is built or where its artifacts lie, its runner and what it promises.

    ``runner`` is the program and its first arguments; ``run --request … --out …`` follows.
    ``{python}`` stands for the farm's own interpreter (host devices only). In ``env``, ``{bundle}`` stands for the
    folder of the engine's files on the device: ``LD_LIBRARY_PATH: "{bundle}/lib"`` for a dynamically linked one.
    ``backend`` is where nodes are to execute; cases of quantised models run on the CPU backend too where it is another.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    version: str = ""
    level: Literal[0, 1, 2]
    model_format: Literal["refrt", "onnx"]
    runner: tuple[str, ...] = Field(min_length=1)
    abis: dict[str, AbiFiles] = Field(min_length=1)
    build: Build | None = None
    artifacts: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    backend: str = Field(default="cpu", pattern=r"^[a-z0-9][a-z0-9._-]{0,31}$")

    @model_validator(mode="after")
    def _one_source(self) -> EngineManifest:
        if self.build and self.artifacts:
            raise ValueError("give `build` or `artifacts`, not both")
        return self

    def abi_for(self, wanted: tuple[str, ...]) -> str | None:
        """The first ABI of ``wanted`` this engine has a build for."""
        return next((abi for abi in wanted if abi in self.abis), None)


def load_engine(folder: Path, name: str) -> EngineManifest:
    """Read ``engines/NAME.yaml``, or the path given as ``name`` when it ends in ``.yaml``."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.is_file():
        known = sorted(entry.stem for entry in folder.glob("*.yaml"))
        raise UsageError(f"unknown engine {name!r}: {nearest(name, known)}", hint="engines live in engines/NAME.yaml")
    return load(path, EngineManifest)
