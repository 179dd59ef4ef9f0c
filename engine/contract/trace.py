"""A trace: the layers of one execution in order, on disk as ``trace.json`` and raw tensors by digest."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from engine.contract.dtypes import decode, item_size
from engine.contract.errors import ModelError
from engine.contract.result import NonFinite, RawStats


@dataclass(frozen=True)
class Summary:
    """Scale of one tensor over its finite elements: RMS, 99.9th percentile and maximum of the magnitude."""

    rms: float
    p999: float
    max_abs: float


@dataclass(frozen=True)
class TraceLayer:
    """One layer of a reference trace.

    ``inputs`` are layer ids (graph inputs included) this layer reads, so that the first deviating
    layers can be found on the graph; ``stats`` compares with the golden (absent in the golden itself);
    ``final`` marks model outputs; ``reduction`` is how many products or elements each element is a sum of
    (``engine.models.reduction``; 0: unknown).
    """

    id: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    inputs: tuple[str, ...]
    nonfinite: NonFinite
    summary: Summary
    final: bool = False
    stats: RawStats | None = None
    reduction: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return item_size(self.dtype) * math.prod(self.shape)


@dataclass(frozen=True)
class Trace:
    """A reference trace. ``folder`` holds ``trace.json`` and ``tensors/DIGEST``.

    ``kind`` is ``golden`` or ``canonical``; ``constant`` lists layers that do not depend on the
    inputs and so are folded away by every engine (not expected, never counted as paired).
    """

    kind: str
    producer: str
    layers: tuple[TraceLayer, ...]
    constant: tuple[str, ...]
    folder: Path

    def by_id(self) -> dict[str, TraceLayer]:
        """Layers by id."""
        return {layer.id: layer for layer in self.layers}

    @property
    def finals(self) -> tuple[TraceLayer, ...]:
        """The model's outputs."""
        return tuple(layer for layer in self.layers if layer.final)

    def tensor_path(self, layer: TraceLayer) -> Path:
        """Where the raw tensor of a layer lies."""
        return self.folder / "tensors" / layer.digest

    def tensor(self, layer: TraceLayer) -> np.ndarray:
        """The layer's tensor."""
        return decode(self.tensor_path(layer).read_bytes(), layer.dtype, layer.shape)

    def save(self) -> None:
        """Write ``trace.json`` under its final name only when complete."""
        document = {
            "kind": self.kind,
            "producer": self.producer,
            "constant": self.constant,
            "layers": [asdict(layer) for layer in self.layers],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".trace.{os.getpid()}.part"
        part.write_text(json.dumps(document, separators=(",", ":"), allow_nan=False))
        part.rename(self.folder / "trace.json")

    @classmethod
    def load(cls, folder: Path) -> Trace:
        """Read a saved trace; ``ModelError`` when it is absent or damaged."""
        try:
            document = json.loads((folder / "trace.json").read_text())
            layers = tuple(_layer(entry) for entry in document["layers"])
            return cls(document["kind"], document["producer"], layers, tuple(document["constant"]), folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"cannot read the trace in {folder}: {error}", hint="delete that folder; it is made again"
            ) from error


def _layer(entry: dict[str, object]) -> TraceLayer:
    plain = dict(entry)
    plain["shape"] = tuple(entry["shape"])  # type: ignore[arg-type]
    plain["inputs"] = tuple(entry["inputs"])  # type: ignore[arg-type]
    plain["nonfinite"] = NonFinite(**entry["nonfinite"])  # type: ignore[arg-type]
    plain["summary"] = Summary(**entry["summary"])  # type: ignore[arg-type]
    stats = entry.get("stats")
    plain["stats"] = RawStats(**stats) if stats else None  # type: ignore[arg-type]
    return TraceLayer(**plain)  # type: ignore[arg-type]
