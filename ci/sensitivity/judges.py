"""Who says whether two tensors agree: ours, and what is in common use, on the very same tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx

from ci.captures import Capture
from ci.captures.capture import held
from ci.compare import compare_open
from ci.sensitivity.engines import expected_layers
from consistency.records import ReferenceLayer, Scale
from consistency.tensors import Tensor, TensorVerdict
from consistency.thresholds import profile

LEAST_COSINE = 0.99
#: Of the reference's root mean square.
MOST_RMSE = 0.01

Deviates = Callable[[np.ndarray, np.ndarray], bool]


@dataclass(frozen=True)
class Finding:
    """Failing layers (of a peer the first ones only), those that introduced the error, and our words on each."""

    failing: tuple[str, ...]
    first: tuple[str, ...]
    verdicts: Mapping[str, TensorVerdict]


def allclose(ref: np.ndarray, got: np.ndarray) -> bool:
    """numpy's defaults: rtol 1e-5, atol 1e-8, a NaN equals nothing."""
    return not np.allclose(got, ref)


def cosine(ref: np.ndarray, got: np.ndarray) -> bool:
    """Cosine below 0.99; two vectors without a direction agree."""
    return not _cosine(ref, got) >= LEAST_COSINE


def cosine_and_rmse(ref: np.ndarray, got: np.ndarray) -> bool:
    """Cosine below 0.99, or a root mean square error above 1 % of the reference's own root mean square."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = ref.astype(np.float64)
        error = np.sqrt(np.mean(np.square(got.astype(np.float64) - wide)))
        size = np.sqrt(np.mean(np.square(wide)))
    return cosine(ref, got) or not error <= MOST_RMSE * size


def _cosine(ref: np.ndarray, got: np.ndarray) -> float:
    with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN counts as invalid where it is widened
        a, b = ref.reshape(-1).astype(np.float64), got.reshape(-1).astype(np.float64)
        lengths = float(np.sqrt(_dot(a, a)) * np.sqrt(_dot(b, b)))
        if lengths == 0.0:
            return 1.0 if not (a.any() or b.any()) else 0.0
        return _dot(a, b) / lengths


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Without a BLAS, whose threads wait for one another on a busy host."""
    return float(np.einsum("i,i->", a, b))


def polygraphy() -> Deviates | None:
    """Polygraphy's ``SimpleCompareFunc`` with its defaults, or None where the package is not installed."""
    if find_spec("polygraphy") is None:
        return None
    from polygraphy.comparator import SimpleCompareFunc  # noqa: PLC0415 - a development tool, loaded where it is used
    from polygraphy.comparator.struct import IterationResult  # noqa: PLC0415
    from polygraphy.logger import G_LOGGER  # noqa: PLC0415

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    compare = SimpleCompareFunc()

    def deviates(ref: np.ndarray, got: np.ndarray) -> bool:
        with np.errstate(all="ignore"):
            return not bool(compare(IterationResult({"x": ref}), IterationResult({"x": got}))["x"])

    return deviates


def peers() -> dict[str, Deviates]:
    """The judges beside ours, by the name they have on the page."""
    found: dict[str, Deviates] = {}
    package = polygraphy()
    if package:
        found["Polygraphy"] = package
    return found | {"np.allclose": allclose, "cosine": cosine, "cosine + RMSE": cosine_and_rmse}


@dataclass(frozen=True, eq=False)
class Reference:
    """The golden run of a model: its graph and its tensors."""

    model: onnx.ModelProto
    tensors: Mapping[str, np.ndarray]

    @cached_property
    def graph(self) -> tuple[ReferenceLayer, ...]:
        """The layers as localisation takes them."""
        blank = Scale(0.0, 0.0, 0.0)
        return tuple(
            ReferenceLayer(
                layer.id,
                layer.op,
                self.tensors[layer.id].dtype.name,
                self.tensors[layer.id].shape,
                layer.inputs,
                "",
                blank,
                final=layer.final,
            )
            for layer in expected_layers(self.model)
        )

    def ours(self, got: Mapping[str, np.ndarray], name: str) -> Finding:
        """What ``lockstep compare`` says with the profile ``name``."""
        comparison = compare_open(self._capture(self.tensors), self._capture(got), profile(name))
        failing = [layer for layer in comparison.layers if layer.status == "fail"]
        return Finding(
            tuple(layer.name for layer in failing),
            tuple(layer.name for layer in failing if layer.introduced),
            {layer.name: layer for layer in comparison.layers},
        )

    def peer(self, got: Mapping[str, np.ndarray], deviates: Deviates) -> Finding:
        """What a judge of single tensors says; our graph tells it which layer came first.

        Layers of equal bits are not asked about, nor those downstream of a failing one: they could not be first.
        """
        failing: list[str] = []
        tainted: set[str] = set()
        for layer in self.graph:
            ref, tensor = self.tensors[layer.id], got.get(layer.id)
            inherits = not tainted.isdisjoint(layer.inputs)
            if not inherits and tensor is not None and not equal_bits(ref, tensor) and deviates(ref, tensor):
                failing.append(layer.id)
            if inherits or (failing and failing[-1] == layer.id):
                tainted.add(layer.id)
        return Finding(tuple(failing), tuple(failing), {})

    def change(self, got: Mapping[str, np.ndarray]) -> float:
        """The largest change of a final output, of that output's largest value; infinite where a number is lost."""
        return max(_change(self.tensors[layer.id], got[layer.id]) for layer in self.graph if layer.final)

    def _capture(self, tensors: Mapping[str, np.ndarray]) -> Capture:
        loaders = {
            layer.id: lambda layer=layer: self._tensor(layer, tensors[layer.id])
            for layer in self.graph
            if layer.id in tensors
        }
        return Capture(Path("pilot"), loaders)

    @staticmethod
    def _tensor(layer: ReferenceLayer, array: np.ndarray) -> Tensor:
        return replace(held(layer.id, array), op=layer.op, inputs=layer.inputs)


def equal_bits(ref: np.ndarray, got: np.ndarray) -> bool:
    """Whether both hold the same bytes."""
    return ref.shape == got.shape and ref.dtype == got.dtype and ref.tobytes() == got.tobytes()


def _change(ref: np.ndarray, got: np.ndarray) -> float:
    wide = ref.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        worst = float(np.abs(got.astype(np.float64) - wide).max(initial=0.0))
        size = float(np.abs(wide).max(initial=0.0))
    if np.isnan(worst):
        return float("inf")
    return worst / size if size else worst
