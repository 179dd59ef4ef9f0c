"""Run every healthy engine on every model, and note how far each layer is from the golden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from agents.host import host_facts
from ci.learning.chips import ChipEngine
from ci.learning.precisions import Stored, engines, engines_elsewhere, subject_model
from ci.learning.subjects import LEARNED_FROM, family_of
from ci.sensitivity.engines import GOLDEN, Arrays, Engine, expected_layers, host_refrt
from ci.sensitivity.subjects import Subject, fetch
from consistency.metrics.measure import measure
from consistency.thresholds.fitting import Observation
from engine.contract.errors import LockstepError
from engine.models.golden import reductions
from engine.models.graph import GraphLayer, read_model
from farm import kernel

#: What all engines here run on.
BACKEND = "cpu"
#: Inputs of each model on other chips: an emulated run costs a hundred native ones, and models are what counts.
INPUTS_ELSEWHERE = 1
Say = Callable[[str], None]


@dataclass
class Ran:
    """Which models an engine ran on a chip, and in how many runs."""

    engine: str
    chip: str
    models: list[str] = field(default_factory=list)
    runs: int = 0

    def count(self, model: str) -> None:
        """One more run, of ``model``."""
        self.runs += 1
        if model not in self.models:
            self.models.append(model)


@dataclass(frozen=True)
class Observed:
    """All observations, the engines that made them, and what could not be run, with the reason."""

    observations: tuple[Observation, ...]
    engines: tuple[Ran, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Golden:
    model: onnx.ModelProto
    layers: tuple[GraphLayer, ...]
    tensors: dict[str, np.ndarray]
    lengths: dict[str, int]

    @classmethod
    def of(cls, model: onnx.ModelProto, inputs: Arrays) -> _Golden:
        tensors = GOLDEN.run(model, inputs)
        return cls(model, tuple(expected_layers(model)), tensors, reductions(model, tensors, inputs))


def observe(
    root: Path,
    precision: str,
    say: Say,
    subjects: Sequence[Subject] = LEARNED_FROM,
    chips: Sequence[ChipEngine] = (),
) -> Observed:
    """Run every healthy engine of ``precision`` on every subject; ``root`` holds the engines' manifests.

    ``chips`` are engines on other chips than this host's.
    """
    kernel.install()
    models, content = fetch(tuple(subjects), say)
    builds = host_refrt(root, say) if precision == "fp32" else ()
    observations: list[Observation] = []
    ran: dict[str, Ran] = {}
    left_out: dict[str, None] = {}
    own = f"this host ({host_facts().get('cpu', 'unknown')})"
    for number, subject in enumerate(subjects, 1):
        inputs = [subject.make(content, place) for place in range(max(subject.inputs, 2))]
        try:
            model = subject_model(precision, read_model(models[subject.name]), inputs)
            goldens = [_Golden.of(model, arrays) for arrays in inputs]
        except LockstepError as error:
            left_out[f"{subject.name}: {error.message}"] = None
            continue
        for place, (arrays, golden) in enumerate(zip(inputs, goldens, strict=True)):
            elsewhere = engines_elsewhere(precision, model, arrays, chips) if place < INPUTS_ELSEWHERE else ()
            for engine in (*engines(precision, model, arrays, builds), *elsewhere):
                say(f"model {number} of {len(subjects)}, {subject.name}, input {place}: {engine.name}")
                try:
                    observations += _errors(golden, subject, engine, place, arrays)
                except LockstepError as error:
                    left_out[f"{subject.name}, {engine.name}: {error.message}"] = None
                    continue
                chip = getattr(engine, "chip", "") or own
                ran.setdefault(engine.name, Ran(engine.name, chip)).count(subject.name)
    return Observed(tuple(observations), tuple(ran.values()), tuple(left_out))


def _errors(
    golden: _Golden, subject: Subject, engine: Engine | Stored | ChipEngine, place: int, inputs: Arrays
) -> Iterator[Observation]:
    got = engine.run(golden.model, inputs)
    for layer in golden.layers:
        ref = golden.tensors[layer.id]
        if layer.id not in got or not ref.size or ref.dtype.kind not in "fiu":
            continue
        found = measure(got[layer.id], ref)
        yield Observation(
            family=family_of(subject),
            model=subject.name,
            run=f"{subject.name}/{engine.name}/{place}",
            layer=layer.id,
            op=layer.op,
            dtype=ref.dtype.name,
            backend=BACKEND,
            length=golden.lengths[layer.id],
            stats=found.stats,
            scale=found.scale,
        )
