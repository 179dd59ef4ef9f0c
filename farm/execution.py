"""What a worker does for one job: prove the device, deploy, run, measure where no digest matches.

Digests travel first; a layer whose digest matches a reference trace inherits that trace's statistics.
Only for the others does the golden's tensor go to the device, and statistics come back. What is beyond
its bounds is looked at more closely (``farm.closer``). Nothing is judged here: ``consistency`` does that,
from what this returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from agents.deployment import Blob
from consistency.metrics import count_nonfinite
from consistency.metrics.measure import measure
from consistency.records import ObservedLayer, Stats
from consistency.thresholds import absolute_bound, profile
from engine.contract.dtypes import ITEM_SIZES, decode
from engine.contract.request import GoldenTensor, Limits, Request
from engine.contract.result import LayerRecord, OutputRecord, RawStats, Result
from engine.contract.trace import TraceLayer
from farm import kernel
from farm.casejob import CaseJob
from farm.choosing import Budget, Seen, wrong_outputs
from farm.closer import Closer
from farm.config import validate
from farm.evidence import observed_layers, observed_outputs, reference_layers
from farm.floors import know_text
from farm.interrupt import interruptible
from farm.layersagain import LayersAgain
from farm.outputs import MAX_TENSOR_BYTES, alike, as_array, output_array
from farm.runnercall import RunnerCall, golden_tensor, job_name, make_agent, tensor_blob
from farm.selffirst import SelfFirst, is_proved
from farm.sharing import load_trace, localise
from farm.store.blobs import BlobStore
from farm.surroundings import Surroundings
from farm.timeleft import TimeLeft

#: What the farm adds to a job's spec.
_FROM_THE_FARM = ("job", "attempt", "token", "limit_seconds")


def execute_job(spec: dict[str, Any], guard: Callable[[], None]) -> dict[str, Any]:
    """Run one ``CaseJob``; the answer is JSON (see ``_answer``)."""
    attempt = int(spec.get("attempt", 1))
    job = validate({key: value for key, value in spec.items() if key not in _FROM_THE_FARM}, CaseJob, "job")
    know_text(job.floors)
    left = TimeLeft.of(spec["limit_seconds"], job.seconds) if "limit_seconds" in spec else None
    job = localise(job, BlobStore.configured())
    agent = make_agent(job, int(spec.get("token", 0)))
    with agent, interruptible(agent, guard):
        agent.preflight()
        call = RunnerCall(job, agent, guard, attempt, left=left)
        try:
            call.deploy()
            with Surroundings(agent, job.device, job.conditions, guard) as around:
                answer = Measurement(call).run()
            return answer | around.answer()
        finally:
            call.finish()


class Measurement:
    """One case measured through one runner call, two when some layers match no reference."""

    def __init__(self, call: RunnerCall) -> None:
        self.call = call
        self.job = call.job
        blobs, job = BlobStore.configured(), self.job
        self.golden = load_trace(job.golden, job.golden_files, blobs)
        self.canonical = load_trace(job.canonical, job.canonical_files, blobs) if job.canonical else None
        self.expected = self._expected()
        self.sent: set[str] = set()
        self.budget = Budget(0.0)
        self.shown: list[Result] = []
        kernel.install()

    def run(self) -> dict[str, Any]:
        """Call the runner, fetch outputs nobody knows, ask for statistics where no digest matches."""
        request = self._request()
        result = self.call.call(request)
        outputs = self._outputs(result)
        traffic = self.call.agent.traffic
        self.budget = Budget.of(self.golden, traffic.to_device + traffic.from_device)
        self.shown = [result]
        again = self._against_itself(result, request, outputs)
        layers = self._with_stats(result, outputs)
        if self.job.role != "head" or self.job.bundle.level < 1:
            return self._answer(result, layers, outputs) | again
        again |= LayersAgain(
            self.call, request, self.golden, self._golden_file, self._host_stats, self.budget, self.sent, self.shown
        ).look(layers, lambda: self._sound(result, outputs), outputs_vary=bool(again.get("noise")))
        closer = Closer(self.call, self.golden, self.canonical, request, self._golden_file, self.budget, self.sent)
        layers, more = closer.look(result, layers, outputs)
        return self._answer(result, layers, outputs) | again | more

    def _against_itself(self, result: Result, request: Request, outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """The device's further runs of its own (see ``farm.selffirst``), unless its outputs are wrong already."""
        if self.job.role != "head" or is_proved(result, self.expected) or not self._sound(result, outputs):
            return {}
        golden = self.golden.by_id()

        def judged(output: OutputRecord, data: bytes) -> tuple[np.ndarray, Stats | None]:
            layer = golden.get(output.name)
            stats = self._host_stats(data, layer) if layer and alike(output, layer) else None
            return as_array(output, data), Stats(**stats) if stats else None

        def fetch(output: OutputRecord) -> bytes:
            return self.call.output_bytes(output, MAX_TENSOR_BYTES)

        arrays = {record["name"]: output_array(record, (self.golden, self.canonical)) for record in outputs}
        first = {name: array for name, array in arrays.items() if array is not None}
        return SelfFirst(self.call, request, fetch, judged).look(result, first)

    def _sound(self, result: Result, outputs: list[dict[str, Any]]) -> bool:
        """Whether no output is beyond its bounds: if one is, another job confirms it."""
        reference = reference_layers(self.golden, self.canonical)
        return not wrong_outputs(self.job.profile, reference, self._observed_outputs(result, outputs))

    def _expected(self) -> dict[str, tuple[str, ...]]:
        digests = {layer.id: [layer.digest] for layer in self.golden.layers}
        for layer in self.canonical.layers if self.canonical else ():
            known = digests.setdefault(layer.id, [])
            if layer.digest not in known:
                known.append(layer.digest)
        return {layer: tuple(known) for layer, known in digests.items()}

    def _request(self) -> Request:
        layered = self.job.bundle.level >= 1 and self.job.role != "confirm"
        return Request(
            job=job_name(self.job),
            attempt=self.call.attempt,
            model=self.call.model_file(),
            inputs=self.call.input_files(),
            passes=("plain", "instrumented") if layered else ("plain",),
            iterations=self.job.iterations,
            backend=self.job.backend,
            precision=self.job.precision,
            threads=self.job.device.threads,
            expected=self.expected if layered else {},
            limits=Limits(self.job.seconds, self.job.result_bytes),
        )

    def _outputs(self, result: Result) -> list[dict[str, Any]]:
        """Final outputs of the plain run: judged always, so fetched unless a reference has the same bytes."""
        golden = self.golden.by_id()
        records = []
        for output in result.outputs:
            record: dict[str, Any] = asdict(output)
            reference = golden.get(output.name)
            if output.digest not in self.expected.get(output.name, ()):
                data = self.call.output_bytes(output, MAX_TENSOR_BYTES)
                record["blob"] = _keep(data)
                if output.dtype in ITEM_SIZES:
                    record["nonfinite"] = asdict(count_nonfinite(as_array(output, data)))
                if reference is not None and alike(output, reference):
                    got = decode(data, reference.dtype, reference.shape)
                    measured = measure(got, self.golden.tensor(reference))
                    record["stats"] = asdict(measured.bounded(self._bound(reference)))
                    if measured.constant and measured.span is not None and got.size > 1:
                        record["constant_span"] = measured.span[1] - measured.span[0]
            records.append(record)
        return records

    def _host_stats(self, data: bytes, reference: TraceLayer) -> dict[str, Any]:
        got = decode(data, reference.dtype, reference.shape)
        return asdict(measure(got, self.golden.tensor(reference)).bounded(self._bound(reference)))

    def _bound(self, layer: TraceLayer) -> float:
        return absolute_bound(
            profile(self.job.profile), reference_layers(replace(self.golden, layers=(layer,)), None)[0]
        )

    def _with_stats(self, result: Result, outputs: list[dict[str, Any]]) -> tuple[LayerRecord, ...]:
        """The layers of the first call, with statistics where no digest matches (see ``farm.choosing``)."""
        golden = self.golden.by_id()
        known = [layer for layer in result.layers if layer.id in golden]
        differing = {layer.id: golden[layer.id] for layer in known if layer.digest not in self.expected[layer.id]}
        unknown = {
            layer.id: golden[layer.id] for layer in known if layer.id in differing and alike(layer, golden[layer.id])
        }
        if not unknown:
            return result.layers
        seen = Seen(
            rules=self.job.profile,
            reference=reference_layers(self.golden, self.canonical),
            differing=frozenset(differing),
            measurable=frozenset(unknown),
            outputs=self._observed_outputs(result, outputs),
        )
        sizes = {name: layer.nbytes for name, layer in unknown.items()}
        matched = {layer.id: len(self.expected[layer.id]) > 1 for layer in known if layer.id not in differing}
        first = seen.first_choice(matched, sizes, self.budget)
        layers = self._measured(result, result.layers, {name: unknown[name] for name in unknown if name in first})
        if len(first) == len(unknown):
            return layers
        observed = observed_layers({"layers": [asdict(layer) for layer in layers]})
        rest = seen.second_choice(observed, first)
        return self._measured(result, layers, {name: unknown[name] for name in unknown if name in rest})

    @staticmethod
    def _observed_outputs(result: Result, outputs: list[dict[str, Any]]) -> tuple[ObservedLayer, ...]:
        return observed_outputs({"outputs": outputs, "effective": asdict(result.effective)})

    def _measured(
        self, result: Result, layers: tuple[LayerRecord, ...], unknown: dict[str, TraceLayer]
    ) -> tuple[LayerRecord, ...]:
        """``layers`` with the statistics of ``unknown``, one call; the host measures for a runner that cannot."""
        if not unknown:
            return layers
        wanted = {layer.id: self._golden_file(layer) for layer in unknown.values()}
        blobs = [blob for _, blob in wanted.values()]
        self.call.agent.send_blobs(blobs, self.call.guard)
        self.sent |= {blob.sha256 for blob in blobs}
        request = replace(
            self._request(),
            passes=("instrumented",),
            expected={name: self.expected[name] for name in unknown},
            golden={layer: tensor for layer, (tensor, _) in wanted.items()},
        )
        again = self.call.call(request)
        self.shown.append(again)
        measured = self._merge(replace(result, layers=layers), again, unknown)
        missing = [layer for layer in measured if layer.id in unknown and layer.stats is None]
        return self._measure_here(measured, missing, unknown, request) if missing else measured

    def _golden_file(self, layer: TraceLayer) -> tuple[GoldenTensor, Blob]:
        blob = tensor_blob(self.golden, layer)
        return golden_tensor(layer, blob, self._bound(layer)), blob

    @staticmethod
    def _merge(first: Result, again: Result, unknown: Mapping[str, TraceLayer]) -> tuple[LayerRecord, ...]:
        """Statistics of the second call join the first call's layers, if both saw the same bytes."""
        second = {layer.id: layer for layer in again.layers}
        merged = []
        for layer in first.layers:
            other = second.get(layer.id)
            if layer.id in unknown and other is not None and other.digest == layer.digest:
                merged.append(replace(layer, stats=other.stats, nonfinite=other.nonfinite))
            elif layer.id in unknown and other is not None:
                merged.append(replace(layer, digest=other.digest, stats=other.stats, nonfinite=other.nonfinite))
            else:
                merged.append(layer)
        return tuple(merged)

    def _measure_here(
        self,
        layers: tuple[LayerRecord, ...],
        missing: list[LayerRecord],
        unknown: Mapping[str, TraceLayer],
        request: Request,
    ) -> tuple[LayerRecord, ...]:
        """A runner that gives no statistics is asked for the tensors, and the host measures."""
        kept = self.call.call(replace(request, golden={}, keep=tuple(layer.id for layer in missing)))
        self.shown.append(kept)
        found = {layer.id: layer for layer in kept.layers if layer.tensor}
        stats: dict[str, RawStats] = {}
        for layer in missing:
            record = found.get(layer.id)
            if record is None or record.tensor is None:
                continue
            data = self.call.layer_bytes(record.tensor, record.digest, MAX_TENSOR_BYTES)
            stats[layer.id] = RawStats(**self._host_stats(data, unknown[layer.id]))
        return tuple(replace(layer, stats=stats.get(layer.id, layer.stats)) for layer in layers)

    def _answer(self, result: Result, layers: tuple[LayerRecord, ...], outputs: list[dict[str, Any]]) -> dict[str, Any]:
        """What the store keeps: passes, layers with statistics, outputs, fingerprint, traffic, seconds."""
        return {
            "passes": [asdict(entry) for entry in result.passes],
            "layers": [asdict(layer) for layer in layers],
            "outputs": outputs,
            "runner": asdict(result.runner),
            "effective": asdict(result.effective),
            "requested": {
                "backend": self.job.backend,
                "precision": self.job.precision,
                "threads": self.job.device.threads,
            },
            "fingerprint": self._fingerprint(result),
            "traffic": asdict(self.call.agent.traffic),
            "layer_bytes": sum(layer.nbytes for layer in self.golden.layers),
            "runner_seconds": self.call.runner_seconds,
            "load_ns": result.load_ns,
            "left_out": self.call.left_out,
        }

    def _fingerprint(self, result: Result) -> dict[str, str]:
        device, bundle, effective = self.job.device, self.job.bundle, result.effective
        return {
            "chip": device.chip,
            "model": device.model,
            "abi": bundle.abi,
            "os": device.os,
            "runtime": f"{result.runner.name} {result.runner.version} {result.runner.build}".strip(),
            "bundle": bundle.digest,
            "dispatch": effective.dispatch,
            "backend": effective.backend,
            "precision": effective.precision,
            "threads": str(effective.threads),
            "placement": effective.affinity or "any core",
            "tuning_cache": "none",
            "context": "shell",
            "real_or_emulated": "real" if device.real else "emulated",
            **self.call.agent.facts(),
        }


def _keep(data: bytes) -> str:
    """Keep an output by content, where who planned the run finds it; returns its digest."""
    return BlobStore.configured().put_bytes(data)
