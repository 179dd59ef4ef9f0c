"""Executions on the host: ONNX Runtime in every healthy way, the reference evaluator, and both builds of ``refrt``."""

from __future__ import annotations

import platform
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ci.builds import bundles, head_source
from engine.contract.dtypes import decode
from engine.contract.errors import RunnerCrashed, UnsupportedError
from engine.contract.request import ModelFile, Request, TensorFile
from engine.contract.result import parse_result
from engine.digest import file_sha256
from engine.models.export import export_refrt
from engine.models.golden import exposed
from engine.models.graph import GraphLayer, graph_layers
from engine.runtimes import onnxruntime as runtime

Arrays = Mapping[str, np.ndarray]
SECONDS = 120
#: The reference evaluator is written to be read: it gets models with so many input elements at most.
EVALUATED = 20_000
LEAST_OPSET = 14
ABIS = {"x86_64": "x86-64", "aarch64": "arm64"}


def expected_layers(model: onnx.ModelProto) -> list[GraphLayer]:
    """The layers that every engine computes."""
    return [layer for layer in graph_layers(model) if layer.expected]


@dataclass(frozen=True)
class Ort:
    """ONNX Runtime; ``every`` N exposes each Nth layer only (0: final outputs), so that the rest can be fused."""

    name: str
    optimisation: str = "off"
    threads: int = 1
    every: int = 1
    entries: tuple[tuple[str, str], ...] = ()

    def run(self, model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
        """Layer id to tensor."""
        layers = expected_layers(model)
        shown = [layer for place, layer in enumerate(layers) if layer.final or (self.every and place % self.every == 0)]
        names = [layer.id for layer in shown]
        options = runtime.Options(self.optimisation, self.threads, self.entries)
        return dict(zip(names, runtime.run(exposed(model, shown), inputs, names, options), strict=True))


@dataclass(frozen=True)
class Evaluator:
    """ONNX's own reference evaluator, in numpy."""

    name: str = "ONNX reference evaluator"

    def run(self, model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
        """Layer id to tensor."""
        layers = expected_layers(model)
        copy = onnx.ModelProto.FromString(exposed(model, layers))
        names = [layer.id for layer in layers]
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(copy).run(names, dict(inputs))
        return {name: np.asarray(array) for name, array in zip(names, found, strict=True)}


@dataclass(frozen=True)
class Refrt:
    """One build of ``refrt`` for this host, called as a device's agent would."""

    name: str
    program: Path
    threads: int = 1

    def run(self, model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
        """Layer id to tensor; ``UnsupportedError`` names an operator it lacks."""
        with tempfile.TemporaryDirectory(prefix="lockstep-pilot-") as scratch:
            folder = Path(scratch)
            file = folder / "model.refrt"
            record = export_refrt(model, {name: array.shape for name, array in inputs.items()}, file)
            request = Request(
                job="pilot",
                attempt=1,
                model=ModelFile(file.name, file_sha256(file), "refrt"),
                inputs=tuple(_tensor(folder, index, *entry) for index, entry in enumerate(inputs.items())),
                passes=("instrumented",),
                threads=self.threads,
                keep=tuple(layer.id for layer in record.layers),
            )
            (folder / "request.json").write_text(request.to_json())
            return self._call(folder)

    def _call(self, folder: Path) -> dict[str, np.ndarray]:
        command = [str(self.program), "run", "--request", "request.json", "--out", "out"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise RunnerCrashed(
                f"{self.name} left with {done.returncode}: {done.stderr.strip()[-400:]}",
                hint="run `lockstep contract check` against it",
            )
        out = folder / "out"
        layers = parse_result((out / "result.json").read_bytes()).layers
        return {
            layer.id: decode((out / layer.tensor).read_bytes(), layer.dtype, layer.shape)
            for layer in layers
            if layer.tensor
        }


Engine = Ort | Evaluator | Refrt

GOLDEN = Ort("ONNX Runtime")
HEALTHY_ORT = (
    Ort("ONNX Runtime, 2 threads", threads=2),
    Ort("ONNX Runtime, no prepacking", entries=(("session.disable_prepacking", "1"),)),
    Ort("ONNX Runtime, subnormals flushed", entries=(("session.set_denormal_as_zero", "1"),)),
    Ort("ONNX Runtime, basic optimisation", "basic"),
    Ort("ONNX Runtime, extended optimisation", "extended"),
    Ort("ONNX Runtime, all optimisations", "all"),
    Ort("ONNX Runtime, all optimisations, 2 threads", "all", threads=2),
    Ort("ONNX Runtime, basic, every 3rd layer", "basic", every=3),
    Ort("ONNX Runtime, extended, every 5th layer", "extended", every=5),
    Ort("ONNX Runtime, all, every 7th layer", "all", every=7),
    Ort("ONNX Runtime, all, outputs alone", "all", every=0),
)


def host_refrt(root: Path, report: Callable[[str], None]) -> tuple[Refrt, Refrt]:
    """The canonical and the fast build for this host."""
    abi = ABIS.get(platform.machine())
    if abi is None:
        raise UnsupportedError(f"refrt is not built for {platform.machine()}", hint="run the pilot on x86-64 or arm64")
    programs = [_program(root, name, abi, report) for name in ("refrt", "refrt-fast")]
    return Refrt("refrt", programs[0]), Refrt("refrt-fast", programs[1])


def _program(root: Path, engine: str, abi: str, report: Callable[[str], None]) -> Path:
    bundle = bundles(head_source(root, engine, None), [abi], report)[abi]
    return Path(bundle.files["refrt"].path)


def healthy(model: onnx.ModelProto, inputs: Arrays, refrt: Sequence[Refrt]) -> tuple[Engine, ...]:
    """Every healthy engine that can run ``model``: ``refrt`` with one and two threads where it has the operators."""
    engines: list[Engine] = [*HEALTHY_ORT]
    if sum(array.size for array in inputs.values()) < EVALUATED and _evaluates(model, inputs):
        engines.append(Evaluator())
    for build in refrt:
        if runs(build, model, inputs):
            engines += [build, Refrt(f"{build.name}, 2 threads", build.program, threads=2)]
    return tuple(engines)


def runs(build: Refrt, model: onnx.ModelProto, inputs: Arrays) -> bool:
    """Whether ``refrt`` has every operator of ``model``."""
    with tempfile.TemporaryDirectory(prefix="lockstep-pilot-") as scratch:
        try:
            export_refrt(model, {name: array.shape for name, array in inputs.items()}, Path(scratch) / "model.refrt")
        except UnsupportedError:
            return False
    return build.program.is_file()


def _evaluates(model: onnx.ModelProto, inputs: Arrays) -> bool:
    """Whether ONNX's evaluator is a healthy engine for ``model``: some of its operators fail on legal shapes.

    Below opset 14 its BatchNormalization takes mean and variance from the data: wrong, and no noise.
    """
    if next((entry.version for entry in model.opset_import if not entry.domain), 0) < LEAST_OPSET:
        return False
    try:
        Evaluator().run(model, inputs)
    except (RuntimeError, TypeError, ValueError, LookupError):
        return False
    return True


def _tensor(folder: Path, index: int, name: str, array: np.ndarray) -> TensorFile:
    path = folder / f"input-{index}.bin"
    path.write_bytes(np.ascontiguousarray(array).tobytes())
    return TensorFile(name, array.dtype.name, array.shape, path.name, file_sha256(path))
