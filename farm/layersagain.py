"""The layers of a device against themselves, as far as possible from calls that are made anyway.

A layer with a reference's bits has been given twice. A layer with bits of its own is measured in a second call, which
shows every layer once more. So nothing more runs unless a layer, or an output of the plain runs, varied: then the
instrumented pass runs ``MORE`` times, and ``ON_ONE`` times on one thread where there were several. The layers that vary
are measured on the device against the golden; their tensors come back as far as the bound on bytes allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agents.deployment import Blob
from engine.contract.dtypes import decode
from engine.contract.errors import RunnerError, UnsupportedError
from engine.contract.request import GoldenTensor, Request
from engine.contract.result import LayerRecord, Result
from engine.contract.trace import Trace, TraceLayer
from farm.choosing import Budget
from farm.outputs import MAX_TENSOR_BYTES, alike
from farm.runnercall import RunnerCall
from farm.selffirst import MORE, ON_ONE, Spread

GoldenFile = Callable[[TraceLayer], tuple[GoldenTensor, Blob]]
"""A golden tensor as a request names it, and the blob that brings it."""
Measured = Callable[[bytes, TraceLayer], dict[str, Any]]
"""Statistics of a layer's bytes against the golden, made here."""


@dataclass
class LayersAgain:
    """``shown``: the calls that captured every layer, the first one first. ``sent``: sha256 of blobs on the device."""

    call: RunnerCall
    request: Request
    golden: Trace
    golden_file: GoldenFile
    measured: Measured
    budget: Budget
    sent: set[str]
    shown: list[Result]
    on_one: list[Result] = field(default_factory=list)
    spreads: dict[str, Spread] = field(default_factory=dict)
    stats: dict[str, dict[str, Any]] = field(default_factory=dict)

    def look(self, layers: Sequence[LayerRecord], sound: Callable[[], bool], *, outputs_vary: bool) -> dict[str, Any]:
        """``layers_again``: how often the layers ran, and of those that vary every digest with its statistics.

        ``layers`` are the first call's, with the statistics that later ones gave. ``sound`` is asked before more runs:
        wrong outputs are confirmed by another job.
        """
        if (self._varying() or outputs_vary) and sound():
            self._run_further()
        if len(self.shown) < 2:
            return {}
        return {"layers_again": {"runs": len(self.shown), "varying": self._told(layers)}}

    def _varying(self) -> tuple[str, ...]:
        """Layers with more than one digest so far, in the model's order."""
        seen: dict[str, set[str]] = {}
        for result in self.shown:
            for layer in _whole(result):
                seen.setdefault(layer.id, set()).add(layer.digest)
        return tuple(layer.id for layer in self.golden.layers if len(seen.get(layer.id, ())) > 1)

    def _run_further(self) -> None:
        threads = self.shown[0].effective.threads
        there: dict[str, GoldenTensor] = {}
        keep: tuple[str, ...] = ()
        for left in range(MORE, 0, -1):
            if not self.call.has_time_for("further runs of layers that vary"):
                break
            wanted = self._measurable()
            there |= self._affordable(wanted, there)
            if not keep and left > 1:
                keep = tuple(layer.id for layer in wanted if self.budget.affords(layer.nbytes * left))
            self.shown.append(self._ask(threads, there, keep))
            self._fetch(keep)
        if threads > 1 and self._varying():
            with suppress(RunnerError, UnsupportedError):  # an engine need not be able to run on one thread
                for _ in range(ON_ONE):
                    if self.call.has_time_for("layers on one thread"):
                        self.on_one.append(self._ask(1, {}, ()))

    def _measurable(self) -> list[TraceLayer]:
        """The layers that vary and have the golden's type and shape."""
        golden = self.golden.by_id()
        last = {layer.id: layer for layer in self.shown[-1].layers}
        return [golden[name] for name in self._varying() if name in last and alike(last[name], golden[name])]

    def _affordable(self, wanted: Iterable[TraceLayer], there: Iterable[str]) -> dict[str, GoldenTensor]:
        """Golden tensors for what is ``wanted`` and not ``there``: what the device has, then what may still travel."""
        files = {layer.id: self.golden_file(layer) for layer in wanted if layer.id not in there}
        chosen = {
            name: (tensor, blob)
            for name, (tensor, blob) in files.items()
            if blob.sha256 in self.sent or self.budget.affords(blob.size)
        }
        self.call.agent.send_blobs([b for _, b in chosen.values() if b.sha256 not in self.sent], self.call.guard)
        self.sent |= {blob.sha256 for _, blob in chosen.values()}
        return {name: tensor for name, (tensor, _) in chosen.items()}

    def _ask(self, threads: int, golden: dict[str, GoldenTensor], keep: tuple[str, ...]) -> Result:
        return self.call.call(
            replace(
                self.request,
                passes=("instrumented",),
                iterations=1,
                expected={},
                threads=threads,
                golden=golden,
                keep=keep,
            )
        )

    def _fetch(self, keep: Iterable[str]) -> None:
        """The tensors of the last call join the spreads; a runner that gives no statistics is measured by them."""
        golden = self.golden.by_id()
        for layer in _whole(self.shown[-1]):
            if layer.id not in keep or layer.tensor is None or not alike(layer, golden[layer.id]):
                continue
            data = self.call.layer_bytes(layer.tensor, layer.digest, MAX_TENSOR_BYTES)
            values = decode(data, layer.dtype, layer.shape)
            if layer.id in self.spreads:
                self.spreads[layer.id].add(values)
            else:
                self.spreads[layer.id] = Spread.of(values)
            if layer.stats is None:
                self.stats[layer.digest] = self.measured(data, golden[layer.id])

    def _told(self, layers: Sequence[LayerRecord]) -> dict[str, dict[str, Any]]:
        """The layers that vary, as the answer has them (see ``consistency.records.LayerRuns``)."""
        told: dict[str, dict[str, Any]] = {
            name: {"digests": [], "on_one": [], "shown": {}, "width": self._width(name)} for name in self._varying()
        }
        runs = [("digests", result) for result in self.shown] + [("on_one", result) for result in self.on_one]
        for key, layer in ((key, layer) for key, result in runs for layer in _whole(result) if layer.id in told):
            told[layer.id][key].append(layer.digest)
            self._add(told[layer.id]["shown"], layer)
        for layer in layers:
            if layer.id in told:
                self._add(told[layer.id]["shown"], layer)
        return told

    def _add(self, shown: dict[str, dict[str, Any]], layer: LayerRecord) -> None:
        """One result of a layer, unless it is known with statistics."""
        stats = asdict(layer.stats) if layer.stats else self.stats.get(layer.digest)
        if layer.digest not in shown or (stats and not shown[layer.digest]["stats"]):
            shown[layer.digest] = {"stats": stats, "nonfinite": asdict(layer.nonfinite)}

    def _width(self, name: str) -> float | None:
        spread = self.spreads.get(name)
        return spread.width if spread is not None and spread.runs > 1 else None


def _whole(result: Result) -> list[LayerRecord]:
    return [layer for layer in result.layers if not layer.isolated]
