"""Mutations of a captured array: what goes wrong between the kernel and the file, one kind a file, found by name.

A file offers ``apply(array) -> array``: a copy of equal shape and type, or the array itself where the kind does not
apply. They are no faults of an engine, whose layers behind would change too; those are executed
(``engine/models/faults``), and both are counted apart.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import numpy as np

Mutation = Callable[[np.ndarray], np.ndarray]


def mutations() -> dict[str, Mutation]:
    """All kinds by file name."""
    names = sorted(entry.name for entry in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").apply for name in names}


def mutated(kind: str, array: np.ndarray) -> np.ndarray | None:
    """``array`` with the mutation; None where its bits would stay as they are."""
    changed = mutations()[kind](array)
    return None if changed.tobytes() == array.tobytes() else changed
