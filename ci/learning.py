"""Healthy engines beside the golden, for ``lockstep thresholds learn``: the error of each layer, of its scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ci.profiles import Evidence, learned_text
from ci.sensitivity.engines import GOLDEN, Engine, healthy, host_refrt
from ci.sensitivity.judges import Reference
from ci.sensitivity.subjects import SUBJECTS, Subject, fetch
from consistency.metrics.measure import measure
from consistency.thresholds import profile
from consistency.thresholds.learned import HeldOut, Observation, held_out, learn
from consistency.thresholds.profile import effective_scale
from engine.models.graph import read_model
from engine.runtimes import onnxruntime as runtime
from farm import kernel

BASE = "fp32"


@dataclass(frozen=True)
class Observed:
    """All observations, and the engines that made them."""

    observations: tuple[Observation, ...]
    engines: tuple[str, ...]


def observe(root: Path, say: Callable[[str], None], subjects: tuple[Subject, ...] = SUBJECTS) -> Observed:
    """Run every healthy engine on every subject; ``root`` holds the engines' manifests."""
    kernel.install()
    models, content = fetch(subjects, say)
    builds = host_refrt(root, say)
    observations: list[Observation] = []
    engines: dict[str, None] = {}
    for subject in subjects:
        model = read_model(models[subject.name])
        for place in range(subject.inputs):
            inputs = subject.make(content, place)
            golden = Reference(model, GOLDEN.run(model, inputs))
            for engine in healthy(model, inputs, builds):
                say(f"{subject.name}, input {place}: {engine.name}")
                observations += _errors(golden, subject.name, engine, place, inputs)
                engines[engine.name] = None
    return Observed(tuple(observations), tuple(engines))


def _errors(
    golden: Reference, subject: str, engine: Engine, place: int, inputs: dict[str, np.ndarray]
) -> Iterator[Observation]:
    got = engine.run(golden.model, inputs)
    for layer in golden.graph:
        if layer.id in got and layer.dtype == "float32":
            found = measure(got[layer.id], golden.tensors[layer.id])
            scale, error = effective_scale(found.scale), found.stats.max_abs
            # what atol passes is the rounding of numbers that cancelled: relative to what is left it is any size
            share = error / scale if error > _atol(layer.op) and scale > 0.0 else 0.0
            yield Observation(subject, f"{subject}/{engine.name}/{place}", layer.op, share)


def write_learned(
    observed: Observed, name: str, rate: float, folder: Path, date: str, command: str
) -> tuple[Path, tuple[HeldOut, ...]]:
    """Learn, judge each model by the others, and write ``folder/NAME.yaml``. ``date`` as YYYY-MM-DD."""
    base = profile(BASE)
    seen = observed.observations
    held = held_out(seen, rate, base)
    evidence = Evidence(
        date=date,
        command=command,
        models=tuple(sorted({entry.model for entry in seen})),
        engines=observed.engines,
        versions={"onnxruntime": runtime.version()},
        runs=len({entry.run for entry in seen}),
        layers=len(seen),
    )
    path = folder / f"{name}.yaml"
    text = learned_text(name, rate, evidence, held, learn(seen, rate, base))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path, held


def _atol(op: str) -> float:
    base = profile(BASE)
    return base.by_op.get(op, base.floats).atol
