"""A device against itself, before it is compared with others: the plain pass again, in a process of its own.

Asked where it can tell something: two passes that both have a reference's bits have shown it already, and outputs
beyond their bounds are confirmed by another job. What varies is run a few times more, so that its noise is known; an
engine that ran on several threads also runs on one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from consistency.records import Stats
from engine.contract.errors import RunnerError, UnsupportedError
from engine.contract.request import Request
from engine.contract.result import OutputRecord, Result
from farm.runnercall import RunnerCall
from farm.timeleft import MEASURING_CALLS

#: Further runs of what varies: with the first two, five.
MORE = 3
#: Runs on one thread of what varies on several.
ON_ONE = 2

Fetch = Callable[[OutputRecord], bytes]
"""The bytes of an output of the last call."""
Judged = Callable[[OutputRecord, bytes], tuple[np.ndarray, Stats | None]]
"""An output as an array, and its statistics against the golden where they can be compared."""


@dataclass
class Spread:
    """The smallest and the largest of one output's elements over the runs of one device."""

    low: np.ndarray
    high: np.ndarray
    runs: int = 1

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        """Of one run."""
        wide = values.astype(np.float64)
        return cls(wide, wide.copy())

    def add(self, values: np.ndarray) -> None:
        """One more run; values that are no number are counted elsewhere."""
        self.runs += 1
        if values.shape == self.low.shape:
            np.fmin(self.low, values, out=self.low, casting="unsafe")
            np.fmax(self.high, values, out=self.high, casting="unsafe")

    @property
    def width(self) -> float:
        """How far apart the runs are, at the element where that is most."""
        with np.errstate(invalid="ignore"):
            apart = self.high - self.low
        finite = apart[np.isfinite(apart)]
        return float(finite.max()) if finite.size else 0.0


@dataclass
class SelfFirst:
    """Runs the plain pass of ``request`` again; ``judged`` makes an array and statistics of an output's bytes."""

    call: RunnerCall
    request: Request
    fetch: Fetch
    judged: Judged
    runs: list[dict[str, Any]] = field(default_factory=list)
    spreads: dict[str, Spread] = field(default_factory=dict)

    def look(self, result: Result, first: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """``again``: digests and statistics of every further run; ``noise``: of the outputs that vary, how much.

        ``first`` has the outputs of ``result`` as arrays.
        """
        known = {output.name: output for output in result.outputs if output.name in first}
        self.spreads = {name: Spread.of(first[name]) for name in known}
        threads = result.effective.threads
        varies = self._differs(self._run(threads, known), known)
        for _ in range(MORE if varies else 0):
            if self._has_time_for("further runs of outputs that vary"):
                self._run(threads, known)
        if threads > 1:
            with suppress(RunnerError, UnsupportedError):  # an engine need not be able to run on one thread
                for _ in range(ON_ONE if varies else 1):
                    if self._has_time_for("outputs on one thread"):
                        self._run(1, known)
        return {"again": self.runs, "noise": {name: spread.width for name, spread in self._varying(known)}}

    def _has_time_for(self, what: str) -> bool:
        return self.call.has_time_for(what, must_follow=MEASURING_CALLS)

    def _run(self, threads: int, known: Mapping[str, OutputRecord]) -> dict[str, str]:
        request = replace(self.request, passes=("plain",), iterations=1, expected={}, threads=threads)
        result = self.call.call(request)
        stats = {}
        for output in result.outputs:
            if output.name not in known or output.digest == known[output.name].digest:
                continue
            values, measured = self.judged(output, self.fetch(output))
            if measured is not None:
                stats[output.name] = asdict(measured)
            if result.effective.threads == threads == self.request.threads:
                self.spreads[output.name].add(values)
        digests = {output.name: output.digest for output in result.outputs}
        self.runs.append({"threads": result.effective.threads, "outputs": digests, "stats": stats})
        return digests

    def _varying(self, known: Mapping[str, OutputRecord]) -> list[tuple[str, Spread]]:
        own = [run["outputs"] for run in self.runs if run["threads"] == self.runs[0]["threads"]]
        return [
            (name, self.spreads[name]) for name in known if any(self._differs(run, {name: known[name]}) for run in own)
        ]

    @staticmethod
    def _differs(run: Mapping[str, str], known: Mapping[str, OutputRecord]) -> bool:
        return any(run.get(name) != output.digest for name, output in known.items())


def is_proved(result: Result, expected: Mapping[str, Sequence[str]]) -> bool:
    """Whether a call shows that the device repeats itself: two passes or more, all with a reference's bits."""
    same = [dict(entry.outputs) for entry in result.passes]
    known = all(output.digest in expected.get(output.name, ()) for output in result.outputs)
    return known and len(same) > 1 and all(outputs == same[0] for outputs in same)
