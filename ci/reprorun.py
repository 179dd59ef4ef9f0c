"""Runs a repro folder: the cut-out layer on its inputs, on this host or a device, judged as a gate judges it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ci.builds import bundles, head_source
from ci.reprofile import Repro, load_repro
from consistency.judge_layer import LayerJudge
from consistency.metrics import count_nonfinite, scale_of
from consistency.metrics.measure import measure
from consistency.records import LayerVerdict, ObservedLayer, ReferenceLayer
from consistency.thresholds import absolute_bound, profile
from engine.contract.dtypes import decode
from engine.contract.errors import LockstepError, RunnerNonsense, UsageError
from engine.contract.request import Limits, Request
from engine.contract.result import OutputRecord
from engine.digest import file_sha256, tensor_digest
from engine.models.export import export_refrt
from engine.models.graph import read_model
from engine.toolchain import emulator
from farm.casejob import BundleRef, CaseJob, FileRef, InputRef
from farm.config import nearest
from farm.health import Health
from farm.inventory import Device, Link, load_fleet
from farm.probing import probe
from farm.runnercall import RunnerCall, job_name, make_agent
from farm.store import Store
from farm.store.jobs import whoami

SECONDS = 120.0
MAX_OUTPUT_BYTES = 1 << 30


def run_repro(
    root: Path,
    folder: Path,
    *,
    device: str | None,
    devices_file: Path,
    engine: str | None,
    artifacts: Path | None,
    report: Callable[[str], None],
) -> LayerVerdict:
    """The verdict of the layer on ``device`` (this host when ``None``), with HEAD's engine or given artifacts."""
    repro = load_repro(folder)
    source = head_source(root, engine or repro.engine, artifacts)
    target = _device(device, devices_file, tuple(source.manifest.abis))
    abi = next((abi for abi in target.abis if abi in source.manifest.abis), None)
    if abi is None:
        raise UsageError(
            f"engine {source.manifest.name} has no build for {target.name} ({', '.join(target.abis)})",
            hint=f"choose another device; it is built for {', '.join(source.manifest.abis)}",
        )
    bundle = bundles(source, [abi], report)[abi]
    with tempfile.TemporaryDirectory(prefix="lockstep-repro-") as scratch:
        model = folder / repro.model
        if source.manifest.model_format == "refrt":
            model = Path(scratch) / "model.refrt"
            shapes = {entry.name: entry.shape for entry in repro.inputs}
            export_refrt(read_model(folder / repro.model), shapes, model)
        job = _job(repro, folder, model, source.manifest.model_format, target, bundle)
        output, data = _with_lease(job)
    return _judged(repro, folder, output, data)


def _device(name: str | None, devices_file: Path, abis: tuple[str, ...]) -> Device:
    if name is None:
        own = tuple(abi for abi in abis if abi.startswith("x86-64"))[-1:] or abis[:1]
        link = Link(kind="local")
        return Device(name="repro-host", chip="host", model="host", tier="high", abis=own, memory_mb=1, link=link)
    devices = {device.name: device for device in load_fleet(devices_file).devices}
    if name not in devices:
        raise UsageError(
            f"{devices_file} has no device {name!r}: {nearest(name, list(devices))}",
            hint="`lockstep devices` lists them; without --device the host is used",
        )
    return devices[name]


def _job(repro: Repro, folder: Path, model: Path, format_: str, device: Device, bundle: BundleRef) -> CaseJob:
    name = device.link.emulator
    emulators: dict[str, str] = {name: str(emulator(name))} if name else {}
    inputs = tuple(
        InputRef(name=entry.name, dtype=entry.dtype, shape=entry.shape, file=_file(folder / entry.file))
        for entry in repro.inputs
    )
    return CaseJob(
        case="repro",
        role="head",
        device=device,
        bundle=bundle,
        model=_file(model),
        model_format=format_,  # type: ignore[arg-type]  # the manifest's own word
        inputs=inputs,
        golden=str(folder),
        profile=repro.profile,
        floors=repro.floors,
        backend=repro.backend,
        precision=repro.precision,
        emulators=emulators,
        python=sys.executable,
    )


def _file(path: Path) -> FileRef:
    return FileRef(path=str(path.absolute()), sha256=file_sha256(path), size=path.stat().st_size)


def _with_lease(job: CaseJob) -> tuple[OutputRecord, bytes]:
    """Run under the device's lease, as everybody does; whatever goes wrong in the run is raised as it is."""
    answers: list[tuple[OutputRecord, bytes]] = []
    faults: list[LockstepError] = []

    def run(_: Device, token: int) -> None:
        try:
            answers.append(_call(job, token))
        except LockstepError as error:
            faults.append(error)
            raise

    with Store() as store:
        shown = probe(store, job.device, Health(), whoami(), run)
    if faults:
        raise faults[0]
    if not answers:
        raise UsageError(f"device {job.device.name}: {shown.words}", hint=shown.hint or "try again when it is free")
    return answers[0]


def _call(job: CaseJob, token: int) -> tuple[OutputRecord, bytes]:
    with make_agent(job, token) as agent:
        agent.preflight()
        call = RunnerCall(job, agent, lambda: None)
        try:
            call.deploy()
            request = Request(
                job=job_name(job),
                attempt=1,
                model=call.model_file(),
                inputs=call.input_files(),
                passes=("plain",),
                backend=job.backend,
                precision=job.precision,
                threads=job.device.threads,
                limits=Limits(SECONDS),
            )
            result = call.call(request)
            if len(result.outputs) != 1:
                raise RunnerNonsense(f"the cut-out has one output, the runner gave {len(result.outputs)}")
            return result.outputs[0], call.output_bytes(result.outputs[0], MAX_OUTPUT_BYTES)
        finally:
            call.finish()


def _judged(repro: Repro, folder: Path, output: OutputRecord, data: bytes) -> LayerVerdict:
    wanted = decode((folder / repro.expected.file).read_bytes(), repro.expected.dtype, repro.expected.shape)
    reference = ReferenceLayer(
        id=repro.layer,
        op=repro.op,
        dtype=repro.expected.dtype,
        shape=repro.expected.shape,
        inputs=tuple(entry.name for entry in repro.inputs),
        digest=tensor_digest(wanted),
        scale=scale_of(wanted),
        nonfinite=count_nonfinite(wanted),
        final=True,
    )
    rules = profile("fp32" if profile(repro.profile).bitexact else repro.profile)
    observed = ObservedLayer(repro.layer, repro.op, output.dtype, output.shape, output.digest)
    if (output.dtype, output.shape) == (repro.expected.dtype, repro.expected.shape):
        got = decode(data, output.dtype, output.shape)
        stats = measure(got, wanted).bounded(absolute_bound(rules, reference))
        observed = replace(observed, nonfinite=count_nonfinite(got), stats=stats)
    return LayerJudge(rules, {reference.id: reference}).judge(reference, 0, observed)
