"""A trace folder (``trace.json`` and ``tensors/DIGEST``), with its graph; digests are checked on reading."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import xxhash

from ci.captures.capture import Capture, Loader, damaged, element_count, refused_size, unreadable
from consistency.tensors import Tensor
from engine.contract.dtypes import ITEM_SIZES, decode
from engine.contract.trace import Trace, TraceLayer

ONE_TENSOR = False
MAX_INDEX_BYTES = 512 * 1024**2
_DIGEST = re.compile(r"[0-9a-f]{32}")


def takes(path: Path) -> bool:
    """A folder with ``trace.json``."""
    return (path / "trace.json").is_file()


def read(path: Path) -> Capture:
    """Layers in order; ``UsageError`` or ``ModelError`` when the index is damaged."""
    if (path / "trace.json").stat().st_size > MAX_INDEX_BYTES:
        raise damaged(path / "trace.json", f"larger than {MAX_INDEX_BYTES} bytes")
    trace = Trace.load(path)
    tensors: dict[str, Loader] = {}
    for layer in trace.layers:
        _check(path, layer)
        if layer.id in tensors:
            raise damaged(path, f"layer {layer.id!r} is given twice")
        tensors[layer.id] = _loader(trace, layer)
    return Capture(path, tensors)


def _check(path: Path, layer: TraceLayer) -> None:
    """The index is as untrusted as any file: a digest is part of a path."""
    texts = (layer.id, layer.op, layer.dtype, layer.digest, *layer.inputs)
    if not all(isinstance(text, str) for text in texts):
        raise damaged(path, f"layer {layer.id!r} has fields that are no text")
    if not _DIGEST.fullmatch(layer.digest):
        raise damaged(path, f"layer {layer.id!r} has no digest but {layer.digest!r}")
    if not isinstance(layer.reduction, int) or layer.reduction < 0:
        raise damaged(path, f"layer {layer.id!r} has {layer.reduction!r} for a reduction length")
    try:
        element_count(layer.shape)
    except ValueError as error:
        raise damaged(path, f"layer {layer.id!r}: {error}") from error


def _loader(trace: Trace, layer: TraceLayer) -> Loader:
    return lambda: _load(trace, layer)


def _load(trace: Trace, layer: TraceLayer) -> Tensor:
    path = trace.tensor_path(layer)
    refusal = _refusal(path, layer)
    if refusal:
        empty = unreadable(layer.id, layer.dtype, layer.shape, refusal)
        return replace(empty, op=layer.op, inputs=layer.inputs, reduction=layer.reduction)
    if path.stat().st_size != layer.nbytes:
        raise damaged(path, f"{path.stat().st_size} bytes where {layer.dtype}{list(layer.shape)} needs {layer.nbytes}")
    data = path.read_bytes()
    if xxhash.xxh3_128(data).hexdigest() != layer.digest:
        raise damaged(path, "its content does not have the digest it is called by")
    values = decode(data, layer.dtype, layer.shape)
    known = Tensor(layer.id, layer.dtype, layer.shape, values, op=layer.op, inputs=layer.inputs)
    return replace(known, reduction=layer.reduction)


def _refusal(path: Path, layer: TraceLayer) -> str:
    if layer.dtype not in ITEM_SIZES:
        return f"dtype {layer.dtype} is not known"
    return refused_size(layer.nbytes) if path.is_file() else "the trace has only its digest, not its bytes"
