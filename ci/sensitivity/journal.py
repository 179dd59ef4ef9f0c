"""Finished trials on disk, one JSON line each, so that a pilot that was interrupted goes on where it was.

A journal belongs to one seed and one tree: both are in its name and in every line. Another seed, another version of the
code or of a package has a journal of its own, so that no page mixes two.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

import ci
from ci.sensitivity.records import ArrayTrial, Trial
from engine.bundle import sources_digest
from engine.contract.errors import ConfigError, UsageError
from engine.runtimes import onnxruntime as runtime

#: What the outcome of a trial depends on besides packages: the code that runs, and what ``refrt`` is built from.
CODE = ("ci/**", "consistency/**", "engine/**", "farm/**")
BUILT = ("engine/native/**", "engines/**", "setup/packages.yaml")

_Made = TypeVar("_Made", Trial, ArrayTrial)


class Key(NamedTuple):
    """Which trial of a run: ``part`` is benign, mutant or array; what a part does not have is empty."""

    part: str
    subject: str
    engine: str = ""
    input: int = 0
    kind: str = ""
    layer: str = ""

    @classmethod
    def of(cls, trial: Trial | ArrayTrial) -> Key:
        """The key of a trial that was made."""
        if isinstance(trial, ArrayTrial):
            return cls("array", trial.subject, kind=trial.kind, layer=trial.layer)
        part = "mutant" if trial.kind else "benign"
        return cls(part, trial.subject, trial.engine, trial.input, trial.kind, trial.layer)


def versions() -> dict[str, str]:
    """The packages that a pilot depends on."""
    found = {"ONNX Runtime": runtime.version(), "numpy": version("numpy")}
    try:
        return found | {"Polygraphy": version("polygraphy")}
    except PackageNotFoundError:
        return found


def tree_digest(root: Path, packages: Mapping[str, str]) -> str:
    """16 hex digits over the sources, the engines' sources below ``root``, the packages and the kind of CPU."""
    code = sources_digest(CODE, Path(ci.__file__).parents[1])
    told = [code, sources_digest(BUILT, root), sorted(packages.items()), platform.machine()]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


@dataclass
class Journal:
    """The trials of one run. ``taken_over`` were there when it was opened; without a ``stream`` nothing is kept."""

    run: Mapping[str, int | bool | str] = field(default_factory=dict)
    stream: BinaryIO | None = None
    taken_over: Mapping[Key, Trial | ArrayTrial] = field(default_factory=dict)
    seconds: float = 0.0

    def trial(self, key: Key, make: Callable[[], Trial]) -> Trial:
        """The trial of an earlier run, or the one that ``make`` makes, which is kept then."""
        found = self.taken_over.get(key)
        return found if isinstance(found, Trial) else self._made(make)

    def array(self, key: Key, make: Callable[[], ArrayTrial]) -> ArrayTrial:
        """As ``trial``, for mutations of captured arrays."""
        found = self.taken_over.get(key)
        return found if isinstance(found, ArrayTrial) else self._made(make)

    def said(self, keys: list[Key]) -> str:
        """How many of ``keys`` are taken over, for a line of progress; empty when none is."""
        count = sum(key in self.taken_over for key in keys)
        return f", {count} of {len(keys)} taken over" if count else ""

    def _made(self, make: Callable[[], _Made]) -> _Made:
        begun = time.monotonic()
        trial = make()
        spent = time.monotonic() - begun
        self.seconds += spent
        if self.stream:
            line = {**self.run, "part": Key.of(trial).part, "seconds": round(spent, 3), **asdict(trial)}
            if isinstance(trial, Trial) and not math.isfinite(trial.change):
                line["change"] = None
            # one write: whatever kills this process leaves whole lines and at most one torn one behind
            self.stream.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            self.stream.flush()
        return trial


@contextmanager
def open_journal(
    folder: Path, root: Path, seed: int, say: Callable[[str], None], *, quick: bool = False, fresh: bool = False
) -> Iterator[Journal]:
    """The journal of ``seed`` and the tree as it is, below ``folder``; ``fresh`` forgets what is in it.

    ``ConfigError`` for a line that is no trial of this run, ``UsageError`` when another process writes it or when the
    tree changed while it was open: then what was made is of no tree at all, and no page may be made of it.
    """
    tree = tree_digest(root, versions())
    run: dict[str, int | bool | str] = {"seed": seed, "quick": quick, "tree": tree}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}{'-quick' if quick else ''}-{tree}.jsonl"
    with path.open("a+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{path}: another pilot writes it", hint="wait for its end, or give another --out"
            ) from error
        if fresh:
            stream.truncate(0)
        journal = _read(path, stream, run)
        if journal.taken_over:
            say(f"{len(journal.taken_over)} trials taken over from {path}; --fresh makes them again")
        yield journal
    if tree_digest(root, versions()) != tree:
        path.unlink()
        raise UsageError("the sources changed while the pilot ran", hint="run it again, and let them be meanwhile")


def _read(path: Path, stream: BinaryIO, run: dict[str, int | bool | str]) -> Journal:
    """What is in the file; a last line without its end is cut off."""
    stream.seek(0)
    data = stream.read()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        stream.truncate(len(whole))
    taken: dict[Key, Trial | ArrayTrial] = {}
    seconds = 0.0
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            trial, spent = _parsed(line, run)
        except (ValueError, TypeError, KeyError) as error:
            what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise ConfigError(
                f"{path}:{number}: no trial of this run: {what}", hint="start again with --fresh"
            ) from error
        taken[Key.of(trial)] = trial
        seconds += spent
    return Journal(run, stream, taken, seconds)


_TRIAL, _ARRAY = TypeAdapter(Trial), TypeAdapter(ArrayTrial)


def _parsed(line: bytes, run: Mapping[str, int | bool | str]) -> tuple[Trial | ArrayTrial, float]:
    told = json.loads(line)
    other = {name: told.pop(name) for name in run}
    if other != run:
        raise ValueError(f"it is of {other}")
    part, seconds = told.pop("part"), float(told.pop("seconds"))
    if part == "array":
        return _ARRAY.validate_python(told), seconds
    return _TRIAL.validate_python({**told, "change": math.inf if told["change"] is None else told["change"]}), seconds
