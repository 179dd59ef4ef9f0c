"""Task checks: did the model do its job? Pure functions from final outputs to a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TaskResult:
    """One check: what was expected, what came, and why it failed (empty when ok)."""

    name: str
    ok: bool
    expected: str
    got: str
    reason: str = ""


@dataclass(frozen=True)
class ArgmaxIs:
    """The largest value of ``output`` stands at the place of ``label`` in ``labels``."""

    output: str
    label: str
    labels: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.output} says {self.label}"

    def check(self, outputs: Mapping[str, np.ndarray]) -> TaskResult:
        """``outputs[output]`` holds one score a label, whatever its shape."""
        scores = outputs.get(self.output)
        refusal = _unusable(scores, self.output, len(self.labels))
        if scores is None or refusal:
            return TaskResult(self.name, False, self.label, "nothing", refusal)
        flat = scores.reshape(-1).astype(np.float64)
        best = int(np.argmax(flat))
        got = f"{self.labels[best]} ({flat[best]:.4g})"
        if self.labels[best] == self.label:
            return TaskResult(self.name, True, self.label, got)
        own = flat[self.labels.index(self.label)]
        return TaskResult(self.name, False, self.label, got, f"{self.label} scores {own:.4g}, {got} is larger")


@dataclass(frozen=True)
class ShareAbove:
    """The share of elements of ``output`` above ``threshold`` lies within ``at_least`` … ``at_most``."""

    output: str
    threshold: float
    at_least: float = 0.0
    at_most: float = 1.0

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"share of {self.output} above {self.threshold:g}"

    def check(self, outputs: Mapping[str, np.ndarray]) -> TaskResult:
        """``outputs[output]`` may have any shape."""
        expected = f"{self.at_least:g} … {self.at_most:g}"
        values = outputs.get(self.output)
        refusal = _unusable(values, self.output, None)
        if values is None or refusal:
            return TaskResult(self.name, False, expected, "nothing", refusal)
        share = float(np.count_nonzero(values > self.threshold)) / values.size
        ok = self.at_least <= share <= self.at_most
        reason = "" if ok else f"share {share:.4f} is outside {expected}"
        return TaskResult(self.name, ok, expected, f"{share:.4f}", reason)


Task = ArgmaxIs | ShareAbove


def check_tasks(tasks: tuple[Task, ...], outputs: Mapping[str, np.ndarray]) -> tuple[TaskResult, ...]:
    """All checks on one case's final outputs."""
    return tuple(task.check(outputs) for task in tasks)


def _unusable(values: np.ndarray | None, output: str, size: int | None) -> str:
    if values is None:
        return f"output {output!r} is missing"
    if values.size == 0 or (size is not None and values.size != size):
        return f"output {output!r} holds {values.size} values" + (f", not {size}" if size is not None else "")
    nonfinite = int(values.size - np.count_nonzero(np.isfinite(values)))
    return f"output {output!r} holds {nonfinite} values that are no numbers" if nonfinite else ""
