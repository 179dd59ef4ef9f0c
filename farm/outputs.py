"""Outputs of a device as arrays: checked, decoded, or taken from the reference with the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.contract.dtypes import ITEM_SIZES, decode
from engine.contract.errors import ModelError, RunnerNonsense
from engine.contract.result import LayerRecord, OutputRecord
from engine.contract.trace import Trace, TraceLayer
from farm.store.blobs import BlobStore

#: Largest single tensor that is fetched from a device.
MAX_TENSOR_BYTES = 1 << 30


def as_array(output: OutputRecord, data: bytes) -> np.ndarray:
    """The output as an array; a runner whose bytes do not fit its own shape talks nonsense."""
    try:
        return decode(data, output.dtype, output.shape)
    except ModelError as error:
        raise RunnerNonsense(f"output {output.name!r}: {error.message}") from error


def alike(got: LayerRecord | OutputRecord, reference: TraceLayer) -> bool:
    """Same dtype and shape: only then is a number computed."""
    return got.dtype == reference.dtype and tuple(got.shape) == tuple(reference.shape)


def output_array(record: Mapping[str, Any], references: tuple[Trace | None, ...]) -> np.ndarray | None:
    """A final output as an array: from the blob that was fetched, or from the reference with the same bytes.

    ``None`` for an element type nobody knows: it cannot be compared.
    """
    if record["dtype"] not in ITEM_SIZES:
        return None
    if record.get("blob"):
        shape = tuple(int(size) for size in record["shape"])
        output = OutputRecord(record["name"], record["dtype"], shape, record["digest"], record["path"])
        return as_array(output, BlobStore.configured().get(record["blob"]).read_bytes())
    for trace in references:
        layer = trace.by_id().get(record["name"]) if trace else None
        if trace is not None and layer is not None and layer.digest == record["digest"]:
            return trace.tensor(layer)
    raise RunnerNonsense(f"output {record['name']!r} is neither known nor fetched")
