"""Everything a run needs before a job can be queued: models, inputs, golden traces, exported files."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.builds import EngineSource
from engine.contract.errors import BuildError, UsageError
from engine.contract.trace import Trace
from engine.digest import file_sha256
from engine.models.export import export_refrt
from engine.models.fetch import fetch_suite
from engine.models.golden import golden_trace
from engine.models.graph import read_model
from engine.models.mutate import mutate, parse_injection, valid_targets
from engine.models.preprocess import PreparedInput
from engine.models.quantise import quantised_model
from engine.places import cache_root
from farm.casejob import FileRef, InputRef
from farm.config import nearest
from farm.suites import Case, Suite

Report = Callable[[str], None]


@dataclass(frozen=True)
class PreparedCase:
    """One case ready to run: the model as ONNX, its inputs, its golden trace.

    ``fp32`` is the golden of the model of which this one is the quantised form.
    """

    case: Case
    onnx: Path
    inputs: Mapping[str, PreparedInput]
    golden: Trace
    fp32: Trace | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Input shapes by name."""
        return {name: prepared.shape for name, prepared in self.inputs.items()}

    def input_refs(self) -> tuple[InputRef, ...]:
        """The inputs as jobs carry them."""
        return tuple(
            InputRef(name=name, dtype=entry.dtype, shape=entry.shape, file=_reference(entry.path, entry.sha256))
            for name, entry in self.inputs.items()
        )


def prepare_cases(suite: Suite, cases: tuple[Case, ...], report: Report) -> tuple[PreparedCase, ...]:
    """Fetch models and inputs (offline once cached) and compute the golden traces that are not cached yet."""
    cache = cache_root()
    fetched = fetch_suite(suite.model_files, suite.input_files, cache, report)
    files, models = dict(fetched.files), dict(fetched.models)
    models |= quantised_models(suite, {case.model for case in cases}, models, files, report)
    prepared = []
    for case in cases:
        inputs = suite.prepare(case, files, cache)
        model, fp32 = models[case.model], suite.fp32_of(case.model)
        report(f"golden {case.id}")
        arrays = {name: entry.array() for name, entry in inputs.items()}
        folder = cache / "references" / "golden"
        golden = golden_trace(model, arrays, folder)
        real = golden_trace(models[fp32], arrays, folder) if fp32 else None
        prepared.append(PreparedCase(case, model, inputs, golden, real))
    return tuple(prepared)


def quantised_models(
    suite: Suite, wanted: Collection[str], models: Mapping[str, Path], files: dict[str, Path], report: Report
) -> dict[str, Path]:
    """The models of ``wanted`` that the suite makes from others, made from ``models`` unless they are cached."""
    cache = cache_root()
    made = {}
    for entry in suite.models:
        if entry.quantise is None or entry.fp32 is None or entry.id not in wanted:
            continue
        report(f"quantise {entry.id}")
        calibration = [
            {name: ready.array() for name, ready in suite.prepare_inputs(given, files, cache).items()}
            for given in entry.quantise.inputs
        ]
        recipe = entry.quantise.recipe()
        made[entry.id] = quantised_model(models[entry.fp32], calibration, recipe, cache / "quantised")
    return made


def model_file(prepared: PreparedCase, source: EngineSource, onnx_path: Path, root: Path) -> FileRef:
    """The model as the engine takes it: the ONNX itself, or the flat file made by the engine's own exporter."""
    if source.manifest.model_format == "onnx":
        return _reference(onnx_path, file_sha256(onnx_path))
    exporter = _exporter_version(source.tree)
    key = hashlib.sha256(json.dumps([file_sha256(onnx_path), prepared.shapes, exporter]).encode()).hexdigest()[:32]
    target = cache_root() / "exports" / f"{key}.refrt"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.tree == root:
            export_refrt(read_model(onnx_path), prepared.shapes, target)
        else:
            _export_there(source.tree, onnx_path, prepared.shapes, target)
    return _reference(target, file_sha256(target))


def mutant(cases: tuple[PreparedCase, ...], inject: str) -> dict[str, Path]:
    """The models with a fault at ``KIND@LAYER``, by the ids of the cases whose model has that layer."""
    kind, layer = parse_injection(inject)
    models = {prepared.onnx: read_model(prepared.onnx) for prepared in cases}
    owners = [path for path, model in models.items() if any(layer in node.output for node in model.graph.node)]
    if not owners:
        targets = [name for model in models.values() for name in valid_targets(model)[kind]]
        raise UsageError(
            f"no model of these cases has a layer {layer!r}: {nearest(layer, targets)}",
            hint=f"{len(targets)} layers take {kind}:\n    " + "\n    ".join(targets),
        )
    folder = cache_root() / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[Path, Path] = {}
    for path in owners:
        data = mutate(models[path], kind, layer).SerializeToString(deterministic=True)
        made[path] = folder / f"{hashlib.sha256(data).hexdigest()}.onnx"
        made[path].write_bytes(data)
    return {prepared.case.id: made[prepared.onnx] for prepared in cases if prepared.onnx in made}


def _exporter_version(tree: Path) -> str:
    sources = sorted((tree / "engine" / "models").glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _export_there(tree: Path, onnx_path: Path, shapes: Mapping[str, tuple[int, ...]], target: Path) -> None:
    """A base engine reads the flat file of its own time: its own exporter makes it."""
    words = [f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items()]
    command = [sys.executable, "-m", "engine.models.export", str(onnx_path), str(target), *words]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0 or not target.is_file():
        raise BuildError(
            f"the base's exporter failed on {onnx_path.name}: {done.stderr.strip()[-400:]}",
            hint="choose a base whose engine can export this model",
            command=" ".join(command),
            exit_code=done.returncode,
        )


def _reference(path: Path, sha256: str) -> FileRef:
    return FileRef(path=str(path), sha256=sha256, size=path.stat().st_size)
