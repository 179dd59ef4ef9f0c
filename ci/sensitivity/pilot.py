"""The pilot: which model is broken where, which healthy engines run beside, and the floor that they set."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx

from ci.sensitivity.arrays import array_trials
from ci.sensitivity.engines import GOLDEN, Engine, Refrt, healthy, host_refrt, runs
from ci.sensitivity.journal import Journal, Key, versions
from ci.sensitivity.judges import Reference, peers
from ci.sensitivity.records import ArrayTrial, Pilot, Trial
from ci.sensitivity.subjects import SUBJECTS, Content, Subject, fetch
from ci.sensitivity.trials import OURS, Bench
from engine.models.graph import read_model
from engine.models.mutate import valid_targets
from farm import kernel

Say = Callable[[str], None]

#: Of a quick pilot: models, inputs, faults of each kind.
QUICK = (("voice-frame", "voice"), 1, 1)


def run_pilot(root: Path, seed: int, say: Say, *, quick: bool = False, journal: Journal | None = None) -> Pilot:
    """Break and run everything; minutes, or seconds when ``quick``. ``root`` holds the engines' manifests.

    Trials that ``journal`` has are not made again, and those that are made go into it.
    """
    journal = journal or Journal()
    kernel.install()
    subjects = _quick(SUBJECTS) if quick else SUBJECTS
    models, content = fetch(subjects, say)
    builds = host_refrt(root, say)
    judges = peers()
    mutants: list[Trial] = []
    benign: list[Trial] = []
    arrays: list[ArrayTrial] = []
    for subject in subjects:
        bench = _bench(subject, read_model(models[subject.name]), content, judges)
        benign += _benign(bench, builds, say, journal, quick=quick)
        choice = random.Random(f"{seed}/{subject.name}")  # noqa: S311 - a choice, no secret
        mutants += _mutants(bench, subject, builds[0], choice, say, journal)
        arrays += array_trials(bench, random.Random(f"{seed}/{subject.name}/arrays"), journal)  # noqa: S311
    return Pilot(
        seed=seed,
        quick=quick,
        judges=(OURS, *judges),
        mutants=tuple(mutants),
        benign=tuple(benign),
        arrays=tuple(arrays),
        floors={
            subject.name: max(trial.change for trial in benign if trial.subject == subject.name) for subject in subjects
        },
        versions=versions(),
        seconds=journal.seconds,
    )


def _quick(subjects: Sequence[Subject]) -> tuple[Subject, ...]:
    names, inputs, faults = QUICK
    return tuple(
        replace(subject, inputs=inputs, mutants=faults, refrt_mutants=min(faults, subject.refrt_mutants))
        for subject in subjects
        if subject.name in names
    )


def _bench(subject: Subject, model: onnx.ModelProto, content: Content, judges: dict[str, Callable[..., bool]]) -> Bench:
    inputs = tuple(subject.make(content, place) for place in range(subject.inputs))
    goldens = tuple(Reference(model, GOLDEN.run(model, arrays)) for arrays in inputs)
    return Bench(subject.name, model, inputs, goldens, {OURS: "fp32"}, judges)


def _benign(bench: Bench, builds: Sequence[Refrt], say: Say, journal: Journal, *, quick: bool) -> Iterator[Trial]:
    engines: tuple[Engine, ...] = healthy(bench.model, bench.inputs[0], builds)
    for engine in engines[::3] if quick else engines:
        keys = [Key("benign", bench.subject, engine.name, place) for place in range(len(bench.inputs))]
        say(f"{bench.subject}: {engine.name}{journal.said(keys)}")
        for key in keys:
            yield journal.trial(key, partial(bench.benign, engine, key.input))


def _mutants(
    bench: Bench, subject: Subject, refrt: Refrt, choice: random.Random, say: Say, journal: Journal
) -> Iterator[Trial]:
    plan: list[tuple[Engine, int]] = [(GOLDEN, subject.mutants)]
    if subject.refrt_mutants and runs(refrt, bench.model, bench.inputs[0]):
        plan.append((refrt, subject.refrt_mutants))
    targets = valid_targets(bench.model)
    for engine, wanted in plan:
        for kind, layers in targets.items():
            chosen = sorted(choice.sample(layers, min(wanted, len(layers))), key=layers.index)
            keys = [
                Key("mutant", subject.name, engine.name, number % len(bench.inputs), kind, layer)
                for number, layer in enumerate(chosen)
            ]
            say(f"{subject.name}: {len(chosen)} × {kind} in {engine.name}{journal.said(keys)}")
            for key in keys:
                yield journal.trial(key, partial(bench.mutant, engine, key.input, kind, key.layer))
