"""What a runner is asked: ``RUNNER run --request request.json --out DIR``.

All paths are relative to the runner's working directory. Tensors travel as raw
little-endian bytes in C order. Digests are XXH3-128 (32 hex digits) of those bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

CONTRACT = 1


@dataclass(frozen=True)
class ModelFile:
    """The model to load; ``format`` is ``refrt`` (our flat file) or ``onnx``."""

    path: str
    sha256: str
    format: str


@dataclass(frozen=True)
class TensorFile:
    """One raw tensor on the device."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: str
    sha256: str


@dataclass(frozen=True)
class GoldenTensor:
    """The golden's tensor for one layer; differences above ``bound`` (absolute) are counted."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    bound: float


@dataclass(frozen=True)
class Limits:
    """What the runner may use: wall seconds and bytes of its result file."""

    seconds: float = 120.0
    result_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class Request:
    """One call of a runner.

    ``passes`` holds ``plain`` and/or ``instrumented``; ``expected`` maps a layer id to the
    digests of every reference trace; ``golden`` asks for statistics of those layers;
    ``keep`` asks for the tensors of those layers; ``capture`` names the layers that the
    instrumented pass shows (empty: all), for runtimes in which looking at a layer changes
    the result. ``isolated`` maps a layer id to its input tensors (name → file): the layer
    runs alone on them, after the passes, and is listed once more with ``isolated: true``,
    its statistics where ``golden`` names it and its tensor where ``keep`` does (contract
    level 2; ``passes`` may be empty then).
    """

    job: str
    attempt: int
    model: ModelFile
    inputs: tuple[TensorFile, ...]
    passes: tuple[str, ...] = ("plain", "instrumented")
    iterations: int = 1
    backend: str = "cpu"
    precision: str = "fp32"
    threads: int = 1
    affinity: str | None = None
    strategy: Mapping[str, object] | None = None
    expected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    golden: Mapping[str, GoldenTensor] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    capture: tuple[str, ...] = ()
    isolated: Mapping[str, Mapping[str, TensorFile]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    contract: int = CONTRACT

    def to_json(self) -> str:
        """The text of ``request.json``."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True, allow_nan=False)
