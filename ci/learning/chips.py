"""Engines on other chips: emulated ones, driven by the agents and the runner call that the gate uses."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from agents.base import AgentSpec
from agents.emulated import make
from ci.builds import bundles, head_source
from ci.learning.arm import arm_python
from ci.sensitivity.engines import Arrays, expected_layers
from engine.contract.dtypes import decode
from engine.contract.errors import UnsupportedError
from engine.contract.request import Limits, Request
from engine.digest import file_sha256
from engine.models.export import export_refrt
from engine.toolchain import emulator
from farm.casejob import BundleRef, CaseJob, FileRef, InputRef
from farm.inventory import Device, Link, load_fleet
from farm.runnercall import RunnerCall

#: An emulator is a hundred times slower than the chip it stands for; these bounds are for the largest model here.
SECONDS = 600.0
#: Both builds of ours. The canonical one gives the same bits everywhere: it must add nothing, and says so.
OURS = ("refrt", "refrt-fast")
#: ONNX Runtime on chips of other bit classes than this host's: x86 before AVX, and Arm.
ORT, OLD_X86, ARM = "ort-layers", "Nehalem", "cortex-a53"


@dataclass(frozen=True, eq=False)
class ChipEngine:
    """One engine on one emulated chip, each run on a device of its own: a folder that is removed afterwards."""

    engine: str
    device: Device
    bundle: BundleRef
    model_format: str
    python: str = sys.executable

    @property
    def name(self) -> str:
        """``ENGINE on CHIP``."""
        return f"{self.engine} on {self.device.chip}"

    @property
    def chip(self) -> str:
        """The chip and what emulates it."""
        return f"{self.device.chip} ({self.device.link.emulator}, {self.bundle.abi})"

    def run(self, model: onnx.ModelProto, inputs: Arrays, names: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """Layer id to tensor; ``names`` are the layers to show, of a model that has further ones (empty: all)."""
        with tempfile.TemporaryDirectory(prefix="lockstep-learn-") as scratch:
            folder = Path(scratch)
            shown = self._export(model, inputs, folder / "model") if self.model_format == "refrt" else names
            if self.model_format == "onnx":
                (folder / "model").write_bytes(model.SerializeToString())
            shown = shown or [layer.id for layer in expected_layers(model)]
            return self._call(folder, self._job(folder, inputs), tuple(shown))

    def _export(self, model: onnx.ModelProto, inputs: Arrays, file: Path) -> list[str]:
        record = export_refrt(model, {name: array.shape for name, array in inputs.items()}, file)
        return [layer.id for layer in record.layers]

    def _job(self, folder: Path, inputs: Arrays) -> CaseJob:
        given = []
        for number, (name, array) in enumerate(inputs.items()):
            path = folder / f"input-{number}"
            path.write_bytes(np.ascontiguousarray(array).tobytes())
            given.append(InputRef(name=name, dtype=array.dtype.name, shape=array.shape, file=_file(path)))
        program = str(self.device.link.emulator)
        return CaseJob(
            case="learn",
            role="head",
            device=self.device,
            bundle=self.bundle,
            model=_file(folder / "model"),
            model_format=self.model_format,  # type: ignore[arg-type]  # the manifest's own word
            inputs=tuple(given),
            golden="",
            profile="",
            emulators={program: str(emulator(program))},
            python=self.python,
        )

    def _call(self, folder: Path, job: CaseJob, shown: tuple[str, ...]) -> dict[str, np.ndarray]:
        spec = AgentSpec(
            job.device.name, job.bundle.abi, folder / "device", job.device.link.model_dump(), job.emulators
        )
        with make(spec) as agent:
            agent.preflight()
            call = RunnerCall(job, agent, lambda: None)
            call.deploy()
            limits = Limits(seconds=SECONDS)
            request = Request(
                job="learn",
                attempt=1,
                model=call.model_file(),
                inputs=call.input_files(),
                passes=("instrumented",),
                keep=shown,
                capture=shown if self.model_format == "onnx" else (),
                limits=limits,
            )
            return {
                layer.id: decode(
                    call.layer_bytes(layer.tensor, layer.digest, limits.result_bytes), layer.dtype, layer.shape
                )
                for layer in call.call(request).layers
                if layer.tensor
            }


def chip_engines(
    root: Path, precision: str, devices: Path | None, report: Callable[[str], None]
) -> tuple[ChipEngine, ...]:
    """ONNX Runtime on an old x86 chip; of fp32 also on Arm, and both builds of ours on the emulated ``devices``.

    With fewer bits rounding is so much louder than what a chip adds that one other chip has to do.
    ``root`` holds the engines' manifests and the lock file. None where ``devices`` is None.
    """
    if devices is None:
        return ()
    engines: list[ChipEngine] = []
    if precision == "fp32":
        emulated = [device for device in load_fleet(devices).devices if device.link.kind == "emulated"]
        chips = [device for device in emulated if device.link.emulator]
        for engine in OURS:
            engines += _on(root, engine, chips, report)
    if platform.machine() == "x86_64":  # its wheel is this host's; an emulator of another family could not load it
        engines += _on(root, ORT, [_chip(OLD_X86, "qemu-x86_64", "x86-64")], report)
        if precision == "fp32":
            engines.append(_on_arm(root, engines[-1], report))
    return tuple(engines)


def suited(engines: Sequence[ChipEngine], model: onnx.ModelProto, inputs: Arrays) -> tuple[ChipEngine, ...]:
    """Those that have every operator of ``model``: what ``refrt`` lacks is no fault of a chip."""
    shapes: Mapping[str, tuple[int, ...]] = {name: array.shape for name, array in inputs.items()}
    with tempfile.TemporaryDirectory(prefix="lockstep-learn-") as scratch:
        try:
            export_refrt(model, shapes, Path(scratch) / "model")
        except UnsupportedError:
            return tuple(engine for engine in engines if engine.model_format != "refrt")
    return tuple(engines)


def _on(root: Path, engine: str, chips: Sequence[Device], report: Callable[[str], None]) -> list[ChipEngine]:
    source = head_source(root, engine, None)
    built = bundles(source, [device.abis[0] for device in chips], report)
    return [ChipEngine(engine, device, built[device.abis[0]], source.manifest.model_format) for device in chips]


def _on_arm(root: Path, here: ChipEngine, report: Callable[[str], None]) -> ChipEngine:
    """The same files as ``here``, which are scripts, by an arm64 interpreter with wheels of its own."""
    python = arm_python(root, report)
    bundle = here.bundle.model_copy(update={"abi": "arm64", "env": {**here.bundle.env, **python.environment}})
    chip = _chip(ARM, "qemu-aarch64", "arm64")
    return ChipEngine(here.engine, chip, bundle, here.model_format, str(python.program))


def _chip(cpu: str, program: Literal["qemu-x86_64", "qemu-aarch64"], abi: str) -> Device:
    link = Link(kind="emulated", emulator=program, cpu=cpu)
    name = cpu.lower()
    return Device(name=name, chip=name, model="qemu", tier="low", abis=(abi,), memory_mb=1, link=link)


def _file(path: Path) -> FileRef:
    return FileRef(path=str(path), sha256=file_sha256(path), size=path.stat().st_size)
