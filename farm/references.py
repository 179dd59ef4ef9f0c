"""The canonical trace: the referee engine on this host, every layer kept, compared with the golden once.

Kept by content under ``references/canonical/KEY`` in the cache; the key is the exported model, the inputs
and the referee's build. What matches its digests inherits its statistics.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, replace
from pathlib import Path

from consistency.metrics import scale_of, stats_from_arrays
from consistency.thresholds import absolute_bound
from consistency.thresholds import profile as profile_of
from engine.contract.dtypes import decode
from engine.contract.errors import ModelError
from engine.contract.request import Limits, Request
from engine.contract.result import LayerRecord, RawStats
from engine.contract.trace import Summary, Trace, TraceLayer
from engine.locking import exclusive
from engine.places import state_root
from farm.casejob import CaseJob
from farm.evidence import reference_layers
from farm.runnercall import RunnerCall, job_name, make_agent


def canonical_trace(job: CaseJob, cache: Path) -> Trace:
    """The canonical trace for the model and inputs of ``job`` (a host job of the referee engine)."""
    folder = cache / "references" / "canonical" / _key(job)
    if (folder / "trace.json").is_file():
        return Trace.load(folder)
    golden = Trace.load(Path(job.golden))
    with make_agent(job) as agent:
        call = RunnerCall(job, agent, lambda: None)
        try:
            # No lease guards the referee's folder: traces are made side by side, also by several commands
            with exclusive(state_root() / "devices" / f"{job.device.name}.lock"):
                agent.preflight()
                call.deploy()
            request = Request(
                job=job_name(job),
                attempt=1,
                model=call.model_file(),
                inputs=call.input_files(),
                passes=("plain", "instrumented"),
                keep=tuple(layer.id for layer in golden.layers),
                limits=Limits(seconds=job.seconds),
            )
            result = call.call(request)
            by_id = {layer.id: layer for layer in result.layers}
            layers = [
                _layer(call, by_id[layer.id], layer, golden, folder, job.profile)
                for layer in golden.layers
                if layer.id in by_id
            ]
        finally:
            call.finish()
    producer = f"{result.runner.name} {result.runner.version} {result.runner.build} {job.bundle.digest[:16]}"
    trace = Trace("canonical", producer, tuple(layers), golden.constant, folder)
    trace.save()
    return trace


def _key(job: CaseJob) -> str:
    parts = [job.model.sha256, job.bundle.digest, Path(job.golden).name]
    parts += [f"{entry.name}:{entry.file.sha256}" for entry in sorted(job.inputs, key=lambda entry: entry.name)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _layer(
    call: RunnerCall, record: LayerRecord, golden_layer: TraceLayer, golden: Trace, folder: Path, profile: str
) -> TraceLayer:
    if record.tensor is None:
        raise ModelError(f"the referee kept no tensor for {record.id!r}", hint="its build is stale; type: make setup")
    data = call.layer_bytes(record.tensor, record.digest, 1 << 30)
    _keep(folder / "tensors" / record.digest, data)
    got = decode(data, record.dtype, record.shape)
    alike = (record.dtype, record.shape) == (golden_layer.dtype, golden_layer.shape)
    bound = absolute_bound(profile_of(profile), reference_layers(replace(golden, layers=(golden_layer,)), None)[0])
    stats = RawStats(**asdict(stats_from_arrays(got, golden.tensor(golden_layer), bound))) if alike else None
    return TraceLayer(
        id=record.id,
        op=record.op,
        dtype=record.dtype,
        shape=record.shape,
        digest=record.digest,
        inputs=golden_layer.inputs,
        nonfinite=record.nonfinite,
        summary=Summary(**asdict(scale_of(got))),
        final=golden_layer.final,
        stats=stats,
        reduction=golden_layer.reduction,
    )


def _keep(path: Path, data: bytes) -> None:
    """Write once, visible only when complete."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.rename(path)
