"""A failing layer of a run as a folder: the cut-out model, its inputs, what it must give, how to see it fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from ci.prepare import PreparedCase, mutant, prepare_cases
from ci.reprofile import MANIFEST, Repro, ReproTensor
from engine.contract.errors import UsageError
from engine.contract.trace import Trace
from engine.digest import file_sha256
from engine.models.cutout import cut_out
from engine.models.graph import read_model
from farm.config import nearest
from farm.floors import recall
from farm.suites import find_suite, load_suite
from reports import ReportError, read_verdict

README = """# {op} `{layer}`

Failed in case `{case}` on `{device}` with engine `{engine}`:

{reason}

See it fail on this host, or on a device of your devices.yaml (from a checkout of the engine):

    lockstep repro run {folder}
    lockstep repro run {folder} --device {device}

`model.onnx` computes this one layer. It reads {inputs} as raw little-endian tensors, the golden's own, and must give
`{expected}`. `repro.json` has dtypes, shapes, hashes, the profile and the fingerprint of the device that failed.
"""


@dataclass(frozen=True)
class Failure:
    """The case of a run that a repro is made of."""

    run: Mapping[str, Any]
    case: Mapping[str, Any]
    fingerprint: Mapping[str, str]
    layer: str


def make_repro(
    root: Path,
    run: Path,
    out: Path,
    *,
    case: str | None,
    device: str | None,
    layer: str | None,
    report: Callable[[str], None],
) -> Repro:
    """Write the folder ``out`` from a run's verdict and the cache; it appears only when complete."""
    if out.exists():
        raise UsageError(f"{out} is there already", hint="give another -o DIR, or remove it")
    failure = find_failure(run, case, device, layer)
    suite = load_suite(find_suite(root / "suites", str(failure.run["suite"])))
    prepared = prepare_cases(suite, (suite.case(str(failure.case["case"])),), report)[0]
    path = prepared.onnx
    if failure.run.get("inject"):
        path = mutant((prepared,), str(failure.run["inject"])).get(prepared.case.id, path)
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        repro = _write(root, part, out, failure, prepared, path)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return repro


def find_failure(run: Path, case: str | None, device: str | None, layer: str | None) -> Failure:
    """The case asked for, or the first failing one; its first deviating layer unless ``layer`` is given."""
    try:
        document = read_verdict(run / "verdict.json")
    except ReportError as error:
        raise UsageError(error.message, hint=error.hint) from error
    entries = document["cases"]
    for key, wanted in (("case", case), ("device", device)):
        if wanted is None:
            continue
        known = sorted({entry[key] for entry in entries})
        entries = [entry for entry in entries if entry[key] == wanted]
        if not entries:
            raise UsageError(f"the run has no {key} {wanted!r}: {nearest(wanted, known)}", hint=f"it has: {known}")
    failing = [entry for entry in entries if entry["first_deviating_layers"]]
    chosen = (failing or entries if layer else failing)[:1]
    if not chosen:
        raise UsageError(
            f"{run}: no layer of these cases failed", hint="name one with --case, --device and --layer to cut it out"
        )
    devices = {entry["name"]: entry["fingerprint"] for entry in document["devices"]}
    entry = chosen[0]
    name = layer or entry["first_deviating_layers"][0]
    return Failure(document["run"], entry, devices.get(entry["device"], {}), name)


def _write(root: Path, part: Path, out: Path, failure: Failure, prepared: PreparedCase, path: Path) -> Repro:
    golden, layers = prepared.golden, prepared.golden.by_id()
    if failure.layer not in layers:
        raise UsageError(
            f"the model has no layer {failure.layer!r}: {nearest(failure.layer, list(layers))}",
            hint="`lockstep export layers.csv` lists the layers of a run",
        )
    known = {name: (entry.dtype, entry.shape) for name, entry in prepared.inputs.items()}
    known |= {layer.id: (layer.dtype, layer.shape) for layer in golden.layers}
    cut = cut_out(read_model(path), failure.layer, known)
    onnx.save(cut, str(part / "model.onnx"))
    names = [value.name for value in cut.graph.input]
    inputs = tuple(_copy(part, prepared, golden, name, f"input-{index}.bin") for index, name in enumerate(names))
    expected = _copy(part, prepared, golden, failure.layer, "expected.bin")
    repro = Repro(
        case=str(failure.case["case"]),
        device=str(failure.case["device"]),
        layer=failure.layer,
        op=layers[failure.layer].op,
        engine=str(failure.run["engine"]),
        profile=str(failure.case["profile"]),
        floors=recall(str(failure.case["profile"]), root / "thresholds"),
        backend=str(failure.case["requested"].get("backend", "cpu")),
        precision=str(failure.case["requested"].get("precision", "fp32")),
        model="model.onnx",
        model_sha256=file_sha256(part / "model.onnx"),
        inputs=inputs,
        expected=expected,
        reason=str(failure.case["reason"]),
        fingerprint={str(key): str(value) for key, value in failure.fingerprint.items()},
    )
    (part / MANIFEST).write_text(repro.model_dump_json(indent=1) + "\n")
    facts = repro.model_dump() | {"folder": out, "expected": expected.file, "inputs": _listed(inputs)}
    (part / "README.md").write_text(README.format(**facts))
    return repro


def _listed(inputs: Sequence[ReproTensor]) -> str:
    return ", ".join(f"`{entry.file}` ({entry.name})" for entry in inputs) or "nothing"


def _copy(part: Path, prepared: PreparedCase, golden: Trace, name: str, file: str) -> ReproTensor:
    layers = golden.by_id()
    entry = layers.get(name) or prepared.inputs[name]
    source = golden.tensor_path(layers[name]) if name in layers else prepared.inputs[name].path
    try:
        shutil.copyfile(source, part / file)
    except FileNotFoundError:
        raise UsageError(
            f"the golden's tensor of {name!r} is gone from the cache",
            hint="run `lockstep gate` on this case again: the golden is computed anew",
        ) from None
    return ReproTensor(name=name, dtype=entry.dtype, shape=entry.shape, file=file, sha256=file_sha256(part / file))
