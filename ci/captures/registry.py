"""Which reader takes a path: the modules of ``formats/``, else a folder of files of one tensor each."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import ci.captures.formats as folder
from ci.captures.capture import MAX_TENSORS, Capture, Loader
from consistency.tensors import Tensor, step_of
from engine.contract.errors import UsageError


class Format(Protocol):
    """What a module of ``formats/`` offers."""

    ONE_TENSOR: bool

    def takes(self, path: Path) -> bool:
        """Whether ``path`` looks like this format."""

    def read(self, path: Path) -> Capture:
        """Names and loaders; ``UsageError`` when the file is damaged."""


@cache
def _formats() -> tuple[Format, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    return tuple(cast("Format", importlib.import_module(f"ci.captures.formats.{name}")) for name in names)


def read_capture(path: Path) -> Capture:
    """The capture at ``path``; ``UsageError`` when nothing there can be read."""
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder", hint="name two captures: lockstep compare A B")
    found = next((known for known in _formats() if known.takes(path)), None)
    if found is not None:
        return _checked(found.read(path))
    if path.is_dir():
        return _checked(_folder(path))
    raise UsageError(
        f"{path}: no known kind of capture",
        hint="known: a trace folder, a folder of .npy/.pb/.bin files, .npz, .npy, .safetensors, .pb (ONNX), .bin",
    )


def _checked(capture: Capture) -> Capture:
    if len(capture.tensors) > MAX_TENSORS:
        raise UsageError(
            f"{capture.source}: more than {MAX_TENSORS} tensors", hint="split the capture into several files"
        )
    return capture


def _folder(path: Path) -> Capture:
    """A folder: tensors are called by their path in it, without the suffix.

    A trace folder or archive in it that is called by a step (``step-0``) is that step's capture.
    """
    tensors: dict[str, Loader] = {}
    resources = ExitStack()
    for child in sorted(path.iterdir()):
        reader = next((known for known in _formats() if not known.ONE_TENSOR and known.takes(child)), None)
        step = child.stem if child.is_file() else child.name
        if reader is not None and step_of(step) is not None:
            inner = resources.enter_context(reader.read(child))
            found = {f"{step}/{name}": _within(step, load) for name, load in inner.tensors.items()}
            if twice := next((name for name in found if name in tensors), None):
                raise UsageError(f"{path}: two captures of {step} hold {twice}", hint="keep one of them")
            tensors |= found
    for file in sorted(path.rglob("*")):
        reader = next((known for known in _formats() if known.ONE_TENSOR and known.takes(file)), None)
        if reader is None:
            continue
        name = file.relative_to(path).with_suffix("").as_posix()
        if name in tensors:
            raise UsageError(f"{path}: two files are called {name}", hint="keep one of them")
        tensors[name] = reader.read(file).renamed(name).tensors[name]
    if not tensors:
        raise UsageError(f"{path}: holds no tensor", hint="a capture folder has trace.json, or .npy, .pb or .bin files")
    return Capture(path, tensors, resources=resources)


def _within(step: str, load: Loader) -> Loader:
    """The tensor of a step, its inputs those of the same step."""

    def loaded() -> Tensor:
        held = load()
        return replace(held, name=f"{step}/{held.name}", inputs=tuple(f"{step}/{name}" for name in held.inputs))

    return loaded
