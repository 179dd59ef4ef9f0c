"""A closer look at a case that fails: layers a few at a time, layers alone. Measured here, judged by consistency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agents.deployment import Blob
from consistency.records import ReferenceLayer
from consistency.second import disputed
from consistency.thresholds import absolute_bound, profile
from engine.contract.errors import RunnerError, UnsupportedError
from engine.contract.request import GoldenTensor, Request
from engine.contract.result import LayerRecord, Result
from engine.contract.trace import Trace, TraceLayer
from farm.choosing import Budget
from farm.evidence import observed_layers, observed_outputs, reference_layers
from farm.isolation import Suspects, orders, suspects
from farm.looking import Seen, changed_by_looking, look_again, undisturbed
from farm.runnercall import RunnerCall, golden_tensor, tensor_blob

GoldenFile = Callable[[TraceLayer], tuple[GoldenTensor, Blob]]


@dataclass
class Closer:
    """What the farm asks beyond the first calls, when layers or outputs are beyond their bounds.

    ``request`` is the request of the first call; ``golden_file`` gives a layer's golden as requests have it;
    ``budget`` what may still travel, ``sent`` the sha256 of golden tensors that the device has already.
    """

    call: RunnerCall
    golden: Trace
    canonical: Trace | None
    request: Request
    golden_file: GoldenFile
    budget: Budget
    sent: set[str] = field(default_factory=set)
    trouble: str = ""

    def look(
        self, result: Result, layers: tuple[LayerRecord, ...], outputs: list[dict[str, Any]]
    ) -> tuple[tuple[LayerRecord, ...], dict[str, Any]]:
        """The layers, those seen better replaced; and what goes into the answer.

        That is ``alone``, ``looked``, ``trouble``, and ``by_canonical``: statistics against canonical of failing layers
        at which canonical fails like the device, with other bits.
        """
        found = self._suspects(result, layers, outputs)
        names = found.names
        seen: Seen | None = None
        alone: tuple[LayerRecord, ...] = ()
        by_canonical: tuple[LayerRecord, ...] = ()
        if names or found.failing:
            try:
                if names and changed_by_looking(result) and self._few():
                    seen = self._few_at_a_time(result, layers, names)
                    layers = tuple(seen.direct.get(layer.id, layer) for layer in layers)
                if names and self.call.job.bundle.level >= 2:
                    alone = self._alone(found)
                by_canonical = self._by_canonical(found.failing, layers)
            except (RunnerError, UnsupportedError) as error:  # what was measured before stays; this says why no more
                self.trouble = error.message
        looked = None if seen is None else {"direct": sorted(seen.direct), "calls": seen.calls}
        told = {"alone": alone, "by_canonical": by_canonical}
        lists = {key: [asdict(layer) for layer in entries] for key, entries in told.items()}
        return layers, {**lists, "looked": looked, "trouble": self.trouble}

    def _suspects(
        self, result: Result, layers: Sequence[LayerRecord], outputs: Sequence[Mapping[str, Any]]
    ) -> Suspects:
        answer = {
            "layers": [asdict(layer) for layer in layers],
            "outputs": outputs,
            "effective": asdict(result.effective),
        }
        level = min(self.call.job.bundle.level, 1)
        return suspects(
            self.call.job.profile,
            self._reference(),
            observed_layers(answer),
            observed_outputs(answer),
            level,
            disturbed=changed_by_looking(result),
        )

    def _reference(self) -> tuple[ReferenceLayer, ...]:
        return reference_layers(self.golden, self.canonical)

    def _by_canonical(self, names: Sequence[str], layers: Sequence[LayerRecord]) -> tuple[LayerRecord, ...]:
        """Layers measured against canonical's tensors; those with canonical's bits need no measuring."""
        if self.canonical is None:
            return ()
        rules, known = profile(self.call.job.profile), self.canonical.by_id()
        shown = {layer.id: layer for layer in layers if layer.stats is not None}
        references = {layer.id: layer for layer in self._reference()}
        wanted = [
            name
            for name in disputed(rules, references.values(), names)
            if name in shown and shown[name].digest != known[name].digest
        ]
        if not wanted or not self.call.has_time_for("layers against canonical"):
            return ()
        blobs = {name: tensor_blob(self.canonical, known[name]) for name in wanted}
        self._send(blobs.values())
        tensors = {
            name: golden_tensor(known[name], blob, absolute_bound(rules, references[name]))
            for name, blob in blobs.items()
        }
        asked = replace(self.request, passes=("instrumented",), iterations=1, golden=tensors, capture=tuple(wanted))
        return tuple(layer for layer in self.call.call(asked).layers if layer.id in tensors and layer.stats is not None)

    def _few_at_a_time(self, result: Result, layers: Sequence[LayerRecord], names: Sequence[str]) -> Seen:
        """The layers to blame; all of them when the looking hides the failure and no layer shows it."""
        shown = [layer.id for layer in layers]
        measured = {layer.id for layer in layers if layer.stats is not None}
        wanted = [name for name in shown if name in names and name in measured] or shown
        plain = next(entry.outputs for entry in result.passes if entry.kind == "plain")
        seen = look_again(wanted, plain, self._capture, may=self._few)
        self._add_stats(seen, plain)
        return seen

    def _few(self) -> bool:
        return self.call.has_time_for("layers a few at a time")

    def _capture(self, group: tuple[str, ...]) -> Result:
        by_id = self.golden.by_id()
        files = {name: self.golden_file(by_id[name]) for name in group if name in by_id}
        there = {name: tensor for name, (tensor, blob) in files.items() if blob.sha256 in self.sent}
        return self.call.call(
            replace(self.request, passes=("instrumented",), iterations=1, capture=group, golden=there)
        )

    def _add_stats(self, seen: Seen, plain: Mapping[str, str]) -> None:
        """Statistics for what matches no reference, if the layers can be looked at together."""
        by_id = self.golden.by_id()
        bare = [
            name
            for name, layer in seen.direct.items()
            if layer.stats is None and name in by_id and layer.digest not in self.request.expected.get(name, ())
        ]
        if not bare or not self._few():
            return
        self._send(blob for _, blob in (self.golden_file(by_id[name]) for name in bare))
        again = self._capture(tuple(bare))
        seen.calls += 1
        if undisturbed(again, plain):
            seen.direct.update((layer.id, layer) for layer in again.layers if layer.id in bare)

    def _alone(self, found: Suspects) -> tuple[LayerRecord, ...]:
        """The layers that ran alone on the golden's inputs, with statistics against the golden's result.

        Where bits decide they run on canonical's inputs; their digests are all that is asked for.
        """
        exact = profile(self.call.job.profile).bitexact
        source = self.canonical if exact else self.golden
        if source is None:
            return ()
        made = orders(source, self.call.job.inputs, found, self.sent, self.budget, measured=not exact)
        if not made.isolated or not self.call.has_time_for("layers alone"):
            return ()
        self._send(made.blobs.values())
        by_id = self.golden.by_id()
        golden = {} if exact else {name: self.golden_file(by_id[name])[0] for name in made.isolated}
        result = self.call.call(
            replace(self.request, passes=(), iterations=1, expected={}, golden=golden, isolated=made.isolated)
        )
        return tuple(layer for layer in result.layers if layer.isolated and layer.id in made.isolated)

    def _send(self, blobs: Iterable[Blob]) -> None:
        wanted = [blob for blob in blobs if blob.sha256 not in self.sent]
        self.call.agent.send_blobs(wanted, self.call.guard)
        self.sent |= {blob.sha256 for blob in wanted}
