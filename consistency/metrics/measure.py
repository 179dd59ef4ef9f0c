"""Everything a pair of tensors is judged by, from one pass over memory where the compiled kernel is there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from consistency.metrics import kernel
from consistency.metrics.accumulate import stats_from_arrays
from consistency.metrics.kernel import LARGE_SHARE, SAMPLE, Bits, Kernel, Sums
from consistency.metrics.mean import mean_abs
from consistency.metrics.nonfinite import count_nonfinite
from consistency.metrics.scale import MASK_LEAST, rank_of, scale_of
from consistency.records import NonFinite, Scale, Stats


@dataclass(frozen=True)
class Measurement:
    """What one pass tells. ``stats`` has counts for an unlimited bound; ``bounded`` gives those for another.

    ``scale`` and ``span`` (smallest and largest finite element) are the reference's; ``mean_abs`` is over the finite
    pairs; ``constant``: every element of ``got`` equals its first; ``flushed`` pairs hold a subnormal number and zero.
    """

    got: np.ndarray
    ref: np.ndarray
    stats: Stats
    scale: Scale
    mean_abs: float | None
    got_nonfinite: NonFinite
    ref_nonfinite: NonFinite
    span: tuple[float, float] | None
    constant: bool
    flushed: int

    def bounded(self, bound: float) -> Stats:
        """The statistics with ``over_bound`` counted; a second pass only where something is over it."""
        if not bound >= 0.0:
            raise ValueError(f"bound must be a number that is not negative, not {bound}")
        if self.stats.max_abs <= bound:
            return self.stats
        return replace(self.stats, over_bound=_measured_stats(self.got, self.ref, bound).over_bound)


@np.errstate(invalid="ignore")  # a signalling NaN warns where it is widened; it is counted like any other
def measure(got: np.ndarray, ref: np.ndarray) -> Measurement:
    """Measure ``got`` against ``ref`` (same shape). ``ValueError`` for what cannot be compared exactly."""
    if got.shape != ref.shape:
        raise ValueError(f"shapes differ: {list(got.shape)} and {list(ref.shape)}")
    compiled = kernel.loaded()
    if compiled is not None and compiled.takes(got, ref):
        return _compiled(compiled, got, ref)
    stats = stats_from_arrays(got, ref, math.inf)
    flat = got.reshape(-1)
    return Measurement(
        got,
        ref,
        stats,
        scale_of(ref),
        mean_abs(got, ref),
        count_nonfinite(got),
        count_nonfinite(ref),
        span_of(ref),
        bool(flat.size) and bool((flat == flat[0]).all()),
        flushed_pairs(got, ref),
    )


def span_of(values: np.ndarray) -> tuple[float, float] | None:
    """Smallest and largest finite element, or ``None``."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    return (float(finite.min()) + 0.0, float(finite.max()) + 0.0) if finite.size else None  # no -0.0


def flushed_pairs(got: np.ndarray, ref: np.ndarray) -> int:
    """How many elements are subnormal on one side and zero on the other; 0 for types without subnormal numbers."""
    if ref.dtype.kind != "f" or got.dtype.kind != "f":
        return 0
    smallest = np.finfo(ref.dtype).smallest_normal
    lone = (got == 0) != (ref == 0)
    kept = np.maximum(np.abs(got[lone]), np.abs(ref[lone]))
    return int(np.count_nonzero(kept < smallest))


def _measured_stats(got: np.ndarray, ref: np.ndarray, bound: float) -> Stats:
    compiled = kernel.loaded()
    if compiled is not None and compiled.takes(got, ref):
        sums, _ = compiled.measure(got, ref, bound)
        return _stats(sums)
    return stats_from_arrays(got, ref, bound)


def _compiled(compiled: Kernel, got: np.ndarray, ref: np.ndarray) -> Measurement:
    least = _threshold(ref) if ref.dtype == np.float32 else math.inf
    sums, large = compiled.measure(got, ref, math.inf, least)
    low, high = sums.ref_low + 0.0, sums.ref_high + 0.0
    totals = sums.folded()
    finite_pairs = sums.count - _unlike_pairs(sums, got, ref)
    mean = totals[5] / finite_pairs if finite_pairs else math.inf
    return Measurement(
        got,
        ref,
        _stats(sums),
        _scale(ref, sums, totals[2], large),
        mean if math.isfinite(mean) else None,
        sums.nonfinite("got"),
        sums.nonfinite("ref"),
        (low, high) if low <= high else None,
        bool(sums.got_constant),
        sums.flushed,
    )


def _unlike_pairs(sums: Sums, got: np.ndarray, ref: np.ndarray) -> int:
    """Pairs that are not finite on both sides."""
    if not (sums.nonfinite("got").total or sums.nonfinite("ref").total):
        return 0
    return int(np.count_nonzero(~(np.isfinite(got) & np.isfinite(ref))))


def _stats(sums: Sums) -> Stats:
    difference, square, ref, got, product, _ = sums.folded()
    return Stats(
        count=sums.count,
        differing=sums.differing,
        over_bound=sums.over_bound,
        max_abs=sums.worst,
        worst_index=sums.worst_index,
        worst_got=sums.worst_got,
        worst_ref=sums.worst_ref,
        sum_diff=difference,
        sum_sq_diff=square,
        sum_sq_ref=ref,
        sum_sq_got=got,
        dot=product,
        nonfinite_mismatch=sums.mismatch,
    )


def _threshold(ref: np.ndarray) -> float:
    """A magnitude that about a quarter of a percent of the elements exceed; a guess that costs time if it is wrong."""
    flat = ref.reshape(-1)
    sample = np.abs(flat[:: max(1, flat.size // SAMPLE)])
    sample = sample[np.isfinite(sample)]
    if sample.size < SAMPLE // 2:
        return math.inf
    rank = int(sample.size * (1.0 - LARGE_SHARE))
    return float(np.partition(sample, rank)[rank])


def _scale(ref: np.ndarray, sums: Sums, sum_of_squares: float, large: Bits) -> Scale:
    """The scale from the same pass where it told enough: a plain float32 tensor whose percentile was picked."""
    finite_on_both = not (sums.nonfinite("got").total or sums.nonfinite("ref").total)
    above = sums.count - 1 - rank_of(sums.count)
    picked = sums.picked == large.size > above
    if not (finite_on_both and picked and ref.dtype == np.float32 and sums.ref_low > -MASK_LEAST):
        return scale_of(ref)
    magnitudes = large.view(np.float32)
    p999 = float(np.partition(magnitudes, large.size - 1 - above)[large.size - 1 - above])
    largest = max(abs(sums.ref_low), abs(sums.ref_high))
    return Scale(rms=math.sqrt(sum_of_squares / sums.count), p999=p999, max_abs=largest)
