"""The evaluator's trace: the layers in question by ONNX's reference evaluator, kept by content like the golden."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.contract.dtypes import ITEM_SIZES
from engine.contract.errors import ModelError
from engine.contract.trace import Trace, TraceLayer
from engine.models.golden import keep_layer, trace_key
from engine.models.graph import graph_layers, read_model
from engine.runtimes import onnx_reference as runtime

#: Raised when the content of an evaluator's trace changes for another reason than model, inputs or versions.
TRACE_VERSION = 1


@dataclass(frozen=True)
class Evaluation:
    """``trace`` has the layers that were computed; ``lacking`` says of the others that were wanted why not."""

    trace: Trace
    lacking: Mapping[str, str]


def evaluated_trace(
    model_path: Path, model_sha256: str, inputs: Mapping[str, np.ndarray], wanted: Sequence[str], folder: Path,
    seconds: float,
) -> Evaluation:  # fmt: skip
    """The layers ``wanted`` of ``model_path`` on ``inputs``; what is in ``folder`` already is not computed again.

    The key covers model, inputs, and the versions of onnx, numpy and ONNX Runtime. What the evaluator cannot do is
    kept too, except for want of time (``seconds``, of wall time). Raises ``ModelError`` for a model that is broken.
    """
    key = f"{TRACE_VERSION}|{runtime.version()}|{trace_key(model_sha256, inputs)}"
    target = folder / f"evaluator-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    known, lacking = _kept(target)
    missing = [name for name in wanted if name not in known and name not in lacking]
    if missing:
        model = read_model(model_path)
        layers = {layer.id: layer for layer in graph_layers(model)}
        found = runtime.run(model.SerializeToString(), inputs, missing, seconds)
        lacking |= found.lacking
        for name, array in found.tensors.items():
            if array.dtype.name in ITEM_SIZES:
                known[name] = keep_layer(layers[name], array, target)
            else:
                lacking[name] = f"it is of type {array.dtype}, and only numbers are compared"
        _save(target, [known[name] for name in layers if name in known], lacking)
    return Evaluation(
        _trace(target, tuple(known.values())), {name: lacking[name] for name in wanted if name in lacking}
    )


def _trace(target: Path, layers: tuple[TraceLayer, ...]) -> Trace:
    return Trace("evaluator", f"onnx reference evaluator {runtime.version()}", layers, (), target)


def _kept(target: Path) -> tuple[dict[str, TraceLayer], dict[str, str]]:
    """What an earlier run left, if it is whole."""
    try:
        trace = Trace.load(target)
        lacking = json.loads((target / "lacking.json").read_text())
        if all(trace.tensor_path(layer).stat().st_size == layer.nbytes for layer in trace.layers):
            return trace.by_id(), {str(name): str(reason) for name, reason in lacking.items()}
    except (ModelError, OSError, ValueError, AttributeError):
        pass
    return {}, {}


def _save(target: Path, layers: Sequence[TraceLayer], lacking: Mapping[str, str]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    part = target / f".lacking.{os.getpid()}.part"
    lasting = {name: reason for name, reason in lacking.items() if runtime.OUT_OF_TIME not in reason}
    part.write_text(json.dumps(lasting))
    part.rename(target / "lacking.json")
    _trace(target, tuple(layers)).save()
