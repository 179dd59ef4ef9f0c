"""Likely causes that the numbers of one layer already show; hints, never verdicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

from consistency.metrics.error import coherence
from consistency.records import ObservedLayer, ReferenceLayer, Stats

#: Smallest normal number and largest finite number of a type.
_SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14, "float64": 2.0**-1022}
FP16_MAX = 65504
_SUMMING = frozenset(
    {"GlobalAveragePool", "AveragePool", "ReduceMean", "ReduceSum", "Mean", "ReduceL2", "ReduceSumSquare"}
)

#: Operators that engines compute in several steps.
_DECOMPOSED = frozenset(
    (
        *("Attention", "BatchNormalization", "Gelu", "Gemm", "GroupNormalization", "GRU", "InstanceNormalization"),
        *("LayerNormalization", "LogSoftmax", "LpNormalization", "LSTM", "Mish", "MultiHeadAttention", "ReduceL2"),
        *("ReduceLogSumExp", "ReduceSumSquare", "RMSNormalization", "RNN", "SimplifiedLayerNormalization"),
        *("SkipLayerNormalization", "Softmax", "Softplus"),
    )
)

#: Noise over 256 elements has a coherence of 0.06. Healthy engines reach 0.9 behind a pooling layer, because
#: one rounding there is shared by all that follows; so the error must also be no small part of its bound.
SYSTEMATIC = 0.2
LEAST_ELEMENTS = 256
LEAST_SHARE = 0.25


def fp16_range(
    reference: ReferenceLayer, observed: ObservedLayer, profile: str, layers: Mapping[str, ReferenceLayer]
) -> str | None:
    """A running sum over more elements than FP16 can count overflows, although every input is small."""
    if (observed.dtype != "float16" and profile != "fp16") or reference.op not in _SUMMING:
        return None
    inputs = [prod(layers[name].shape) for name in reference.inputs if name in layers]
    summed = max(inputs, default=0) // max(1, prod(reference.shape))
    if summed <= FP16_MAX:
        return None
    return f"fp16 range: {summed} elements are summed and FP16 ends at {FP16_MAX}"


def internal(op: str, covers: Collection[str]) -> str | None:
    """Values inside a fused or decomposed operator may overflow although no tensor that is shown does."""
    if covers:
        return f"fused with {len(covers)} more: internal values not observable"
    return "internal values not observable" if op in _DECOMPOSED else None


def subnormal_flush(stats: Stats, dtype: str) -> str | None:
    """One side kept a subnormal number where the other has zero."""
    smallest = _SMALLEST_NORMAL.get(dtype)
    if smallest is None or not 0.0 < stats.max_abs < smallest:
        return None
    return "subnormal flush" if 0.0 in (stats.worst_got, stats.worst_ref) else None


def systematic(stats: Stats, bound: float) -> str | None:
    """The error keeps one sign and uses much of its bound: another formula or constant, not rounding."""
    if stats.count < LEAST_ELEMENTS or stats.differing * 2 < stats.count or stats.max_abs < LEAST_SHARE * bound:
        return None
    return "systematic, same sign pattern" if coherence(stats) >= SYSTEMATIC else None


def scaled_by(cosine: float | None, ratio: float | None) -> str | None:
    """Right direction, wrong length."""
    if cosine is None or ratio is None or cosine < 0.9999 or abs(ratio - 1.0) < 1e-3:
        return None
    return f"looks scaled by {ratio:.4g}"
