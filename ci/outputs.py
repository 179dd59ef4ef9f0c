"""Final outputs of the devices of a run as tensors: what is here already settles what statistics leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from ci.judge import CaseOutcome
from consistency.metrics import stats_from_arrays
from consistency.records import Stats
from engine.contract.errors import LockstepError
from engine.contract.trace import Trace
from farm.outputs import output_array


class OutputTensors:
    """The plain runs' outputs of one case, by device; read when they are asked for."""

    def __init__(self, outcomes: Sequence[CaseOutcome], references: tuple[Trace | None, ...]) -> None:
        self._records = {
            outcome.device.name: {record["name"]: record for record in outcome.answer["outputs"]}
            for outcome in outcomes
        }
        self._shown = {
            outcome.device.name: {layer["id"]: layer["digest"] for layer in outcome.answer["layers"]}
            for outcome in outcomes
        }
        self._references = references
        self._tensor = cache(self._read)

    def apart(self, a: str, b: str, name: str) -> Stats | None:
        """Device ``b``'s output ``name`` against ``a``'s; ``None`` where it is no output, or was another in its layers.

        Integers and floats are compared in their own type; unlike types or shapes are not compared here.
        """
        one, other = self._tensor(a, name), self._tensor(b, name)
        if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
            return None
        return stats_from_arrays(other, one, math.inf)

    def _read(self, device: str, name: str) -> np.ndarray | None:
        record = self._records[device].get(name)
        if record is None or self._shown[device].get(name, record["digest"]) != record["digest"]:
            return None
        try:
            return output_array(record, self._references)
        except LockstepError:  # its bytes are gone: then nothing is settled
            return None
