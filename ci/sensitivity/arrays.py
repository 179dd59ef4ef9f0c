"""Mutations of captured arrays: one layer is changed after the run, the others are the golden's own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import numpy as np

from ci.sensitivity.journal import Journal, Key
from ci.sensitivity.records import ArrayTrial
from ci.sensitivity.trials import Bench
from consistency.faults import mutated, mutations

#: Layers of each model for each kind.
LAYERS = 4


def array_trials(bench: Bench, choice: random.Random, journal: Journal) -> Iterator[ArrayTrial]:
    """Each kind at some layers of the first input."""
    golden = bench.goldens[0]
    names = [layer.id for layer in golden.graph]
    for kind in mutations():
        done = 0
        for name in choice.sample(names, len(names)):
            changed = mutated(kind, golden.tensors[name])
            if changed is None:
                continue
            key = Key("array", bench.subject, kind=kind, layer=name)
            yield journal.array(key, partial(_judged, bench, kind, name, changed))
            done += 1
            if done == LAYERS:
                break


def _judged(bench: Bench, kind: str, name: str, changed: np.ndarray) -> ArrayTrial:
    golden, got = bench.goldens[0], {name: changed}
    ours = {judge: golden.ours(got, profile) for judge, profile in bench.profiles.items()}
    failed = {judge: bool(finding.failing) for judge, finding in ours.items()}
    failed |= {judge: bool(golden.peer(got, deviates).failing) for judge, deviates in bench.peers.items()}
    verdict = next(iter(ours.values())).verdicts[name]
    return ArrayTrial(bench.subject, kind, name, failed, "" if verdict.status == "fail" else verdict.reason)
