"""The golden trace: every layer of one ONNX Runtime CPU FP32 run with graph optimisation off."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from engine.contract.dtypes import ITEM_SIZES
from engine.contract.errors import ModelError, StorageFull, UnsupportedError
from engine.contract.result import NonFinite
from engine.contract.trace import Summary, Trace, TraceLayer
from engine.digest import file_sha256, tensor_digest
from engine.models.graph import GraphLayer, graph_layers, read_model
from engine.models.reduction import known_shapes, reduction_length
from engine.runtimes import onnxruntime as runtime

#: Raised when the content of a golden trace changes for another reason than model, inputs or runtime.
TRACE_VERSION = 3
#: A mask is a cluster of negative numbers at least this large, and so many times larger than everything else.
MASK_LEAST = 1e3
MASK_GAP = 1e3
MAX_LAYER_BYTES = 8 * 1024**3


def golden_trace(model_path: Path, inputs: Mapping[str, np.ndarray], folder: Path) -> Trace:
    """The golden of ``model_path`` on ``inputs``, kept in ``folder/golden-KEY`` and read from there the next time.

    KEY covers the model's bytes, the inputs' names, types, shapes and bytes, and the runtime's version.
    Raises ``ModelError`` for a model that is broken, hostile or does not fit the inputs.
    """
    target = folder / f"golden-{trace_key(file_sha256(model_path), inputs)}"
    kept = _kept(target)
    if kept:
        return kept
    model = read_model(model_path)
    layers = graph_layers(model)
    varying = [layer for layer in layers if layer.expected]
    if not any(layer.final for layer in varying):
        raise ModelError(f"{model_path}: no output depends on the inputs", hint="check the model's graph")
    tensors = runtime.run(exposed(model, varying), inputs, [layer.id for layer in varying])
    _check_size(tensors, model_path)
    lengths = reductions(model, {layer.id: array for layer, array in zip(varying, tensors, strict=True)}, inputs)
    trace = Trace(
        kind="golden",
        producer=f"onnxruntime {runtime.version()} cpu fp32, optimisation off",
        layers=tuple(
            replace(keep_layer(layer, array, target), reduction=lengths[layer.id])
            for layer, array in zip(varying, tensors, strict=True)
        ),
        constant=tuple(layer.id for layer in layers if not layer.expected),
        folder=target,
    )
    _writing(target, trace.save)
    return trace


def reductions(
    model: onnx.ModelProto, tensors: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """The reduction length of each of ``tensors``, computed layers of ``model`` on ``inputs``."""
    shapes = known_shapes(model, {name: array.shape for name, array in (*inputs.items(), *tensors.items())})
    made_by = {name: node for node in model.graph.node for name in node.output}
    return {name: reduction_length(made_by[name], shapes) for name in tensors}


def exposed(model: onnx.ModelProto, layers: Iterable[GraphLayer]) -> bytes:
    """The bytes of ``model`` with each of ``layers`` as an output (types are inferred by the runtime)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    outputs = {value.name for value in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=layer.id) for layer in layers if layer.id not in outputs)
    return bytes(copy.SerializeToString())


def trace_key(model_sha256: str, inputs: Mapping[str, np.ndarray]) -> str:
    """32 hex digits that name the golden of a model on these inputs."""
    sha = hashlib.sha256(f"{TRACE_VERSION}|{runtime.version()}|{model_sha256}".encode())
    for name in sorted(inputs):
        array = inputs[name]
        sha.update(f"|{name!r}:{array.dtype.name}:{array.shape}:{tensor_digest(array)}".encode())
    return sha.hexdigest()[:32]


def _kept(folder: Path) -> Trace | None:
    """The saved trace if it is whole; a damaged one is made again."""
    if not (folder / "trace.json").is_file():
        return None
    try:
        trace = Trace.load(folder)
        whole = all(trace.tensor_path(layer).stat().st_size == layer.nbytes for layer in trace.layers)
    except (ModelError, OSError):
        return None
    return trace if whole else None


def _check_size(tensors: list[np.ndarray], model_path: Path) -> None:
    total = sum(tensor.nbytes for tensor in tensors)
    if total > MAX_LAYER_BYTES:
        raise UnsupportedError(
            f"{model_path}: its layers hold {total} bytes on these inputs", hint="take smaller inputs: 8 GiB are kept"
        )


def keep_layer(layer: GraphLayer, array: np.ndarray, folder: Path) -> TraceLayer:
    """Write the tensor under ``folder`` by its digest; ``UnsupportedError`` when it holds no numbers."""
    if array.dtype.name not in ITEM_SIZES:
        raise UnsupportedError(f"layer {layer.id!r} is of type {array.dtype}", hint="only numbers are compared")
    digest = tensor_digest(array)
    path = folder / "tensors" / digest
    if not path.is_file() or path.stat().st_size != array.nbytes:
        _writing(path, lambda: _write(path, array))
    return TraceLayer(
        id=layer.id,
        op=layer.op,
        dtype=array.dtype.name,
        shape=tuple(array.shape),
        digest=digest,
        inputs=layer.inputs,
        nonfinite=count_nonfinite(array),
        summary=summarise(array),
        final=layer.final,
    )


def _write(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_bytes(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
    part.rename(path)


def _writing(path: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        raise StorageFull(
            f"cannot write {path}: {error.strerror or error}", hint="free some space, or set LOCKSTEP_CACHE elsewhere"
        ) from error


def count_nonfinite(array: np.ndarray) -> NonFinite:
    """NaN, +Inf and -Inf among the elements (none for integers)."""
    if not np.issubdtype(array.dtype, np.floating):
        return NonFinite()
    infinite = np.isinf(array)
    positive = int(np.count_nonzero(infinite & (array > 0)))
    return NonFinite(int(np.count_nonzero(np.isnan(array))), positive, int(np.count_nonzero(infinite)) - positive)


def summarise(array: np.ndarray) -> Summary:
    """RMS, 99.9th percentile (nearest rank) and maximum of the magnitudes of the finite elements, in float64.

    Mask values (-1e4, -1e9) are left out of the first two, as in ``consistency.metrics.scale``, by which files are
    judged: else the bounds of attention scores would be those of their mask.
    """
    values = array.reshape(-1).astype(np.float64)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return Summary(0.0, 0.0, 0.0)
    largest = float(np.abs(values).max())
    magnitude = np.abs(_without_mask(values))
    scale = float(magnitude.max()) or 1.0  # squares of the largest doubles would overflow
    rms = scale * float(np.sqrt(np.mean(np.square(magnitude / scale))))
    rank = max(0, -(-999 * magnitude.size // 1000) - 1)
    return Summary(rms, float(np.partition(magnitude, rank)[rank]), largest)


def _without_mask(values: np.ndarray) -> np.ndarray:
    """``values`` without the cluster of large negative numbers that masks some of them, if there is one."""
    lowest = float(values.min())
    if lowest > -MASK_LEAST:
        return values
    rest = values[values > lowest / 4]
    reach = float(np.abs(rest).max()) if rest.size else 0.0
    return rest if 0.0 < reach <= -lowest / MASK_GAP else values
