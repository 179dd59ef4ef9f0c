"""One pass over two tensors that yields every sum and count the metrics need.

Order of addition is fixed and does not depend on how the data arrives: element ``i`` goes to lane ``i mod 8`` of
block ``i div 4096``; a block adds its rows of eight one after another, blocks follow each other, and the lanes are
folded in halves at the end. Each step is an IEEE addition, so the same tensors give the same bits on every machine
and for every chunk size, here, in ``consistency/native/measure.c`` and in ``refrt`` on a device.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from consistency.metrics.nonfinite import nonfinite_kinds
from consistency.records import Stats

LANES = 8
BLOCK = 512 * LANES
CHUNK = 16 * BLOCK
"""Elements taken at a time: blocks side by side give numpy long rows to add."""

Floats = npt.NDArray[np.float64]
_SUMS = 5  # difference, its square, golden's square, got's square, product


def stats_from_arrays(got: np.ndarray, ref: np.ndarray, bound: float, *, chunk: int = CHUNK) -> Stats:
    """Compare ``got`` with ``ref`` (same shape and dtype kind); ``bound`` is absolute.

    ``chunk`` elements are read at a time, which bounds memory and changes no bit of the result.
    Raises ``ValueError`` when the shapes differ, or a type cannot be compared exactly with the other.
    """
    if got.shape != ref.shape:
        raise ValueError(f"shapes differ: {list(got.shape)} and {list(ref.shape)}")
    if chunk < 1:
        raise ValueError("chunk must be at least 1")
    accumulator = StatsAccumulator(bound)
    flat_got, flat_ref = got.reshape(-1), ref.reshape(-1)
    for start in range(0, flat_got.size, chunk):
        accumulator.add(flat_got[start : start + chunk], flat_ref[start : start + chunk])
    return accumulator.finish()


class StatsAccumulator:
    """Takes pairs of flat chunks of any size, in order, and gives their ``Stats``."""

    def __init__(self, bound: float) -> None:
        if not bound >= 0.0:
            raise ValueError(f"bound must be a number that is not negative, not {bound}")
        self._bound = bound
        self._lanes = np.zeros((_SUMS, LANES))
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting_size = 0
        self._count = self._differing = self._over_bound = self._mismatch = 0
        self._worst: tuple[float | int, int, float, float] = (0, -1, 0.0, 0.0)

    def add(self, got: np.ndarray, ref: np.ndarray) -> None:
        """Take one more pair of flat chunks of equal length."""
        if got.shape != ref.shape or got.ndim != 1:
            raise ValueError("chunks must be flat and of equal length")
        self._waiting.append((got, ref))
        self._waiting_size += got.size
        if self._waiting_size >= CHUNK:
            self._drain(final=False)

    def finish(self) -> Stats:
        """The statistics of everything taken so far; call it once."""
        self._drain(final=True)
        # Only float64 tensors near the end of the range overflow; Inf - Inf then stays Inf, never NaN.
        sums = [math.inf if math.isnan(total) else total for total in map(fold_lanes, self._lanes)]
        distance, index, got, ref = self._worst
        return Stats(
            count=self._count,
            differing=self._differing,
            over_bound=self._over_bound,
            max_abs=float(distance),
            worst_index=index,
            worst_got=got,
            worst_ref=ref,
            sum_diff=sums[0],
            sum_sq_diff=sums[1],
            sum_sq_ref=sums[2],
            sum_sq_got=sums[3],
            dot=sums[4],
            nonfinite_mismatch=self._mismatch,
        )

    def _drain(self, *, final: bool) -> None:
        if not self._waiting:
            return
        got = np.concatenate([pair[0] for pair in self._waiting])
        ref = np.concatenate([pair[1] for pair in self._waiting])
        whole = got.size if final else got.size - got.size % BLOCK
        for start in range(0, whole, CHUNK):
            stop = min(start + CHUNK, whole)
            self._chunk(got[start:stop], ref[start:stop])
        self._waiting = [(got[whole:], ref[whole:])] if whole < got.size else []
        self._waiting_size = got.size - whole

    def _chunk(self, got: np.ndarray, ref: np.ndarray) -> None:
        distance: np.ndarray
        if is_exact(got) and is_exact(ref):
            distance, differs = integer_distance(got, ref), got != ref
            over = distance > self._integer_bound()
            clean_got, clean_ref = got.astype(np.float64), ref.astype(np.float64)
            signed = np.where(got >= ref, distance.astype(np.float64), -distance.astype(np.float64))
        elif got.dtype.kind == "f" and ref.dtype.kind == "f":
            distance, differs, over, clean_got, clean_ref, signed = self._float_chunk(got, ref)
        else:
            raise ValueError(f"cannot compare {got.dtype} with {ref.dtype}")
        self._note_worst(distance, got, ref)
        self._differing += int(np.count_nonzero(differs))
        self._over_bound += int(np.count_nonzero(over))
        self._count += got.size
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            terms = (signed, signed * signed, clean_ref * clean_ref, clean_got * clean_got, clean_got * clean_ref)
            for index, term in enumerate(terms):
                self._lanes[index] = add_lanes(self._lanes[index], term)

    def _float_chunk(
        self, got: np.ndarray, ref: np.ndarray
    ) -> tuple[Floats, np.ndarray, np.ndarray, Floats, Floats, Floats]:
        both = np.isfinite(got) & np.isfinite(ref)
        if both.all():
            mismatch = np.zeros(got.shape, dtype=np.bool_)
            clean_got, clean_ref = got.astype(np.float64), ref.astype(np.float64)
        else:
            mismatch = nonfinite_kinds(got) != nonfinite_kinds(ref)
            clean_got = np.where(both, got, 0).astype(np.float64)
            clean_ref = np.where(both, ref, 0).astype(np.float64)
        self._mismatch += int(np.count_nonzero(mismatch))
        with np.errstate(over="ignore"):
            signed = clean_got - clean_ref
        distance = np.abs(signed)
        differs = _bits_differ(got, ref) if got.dtype == ref.dtype else (mismatch | (both & (signed != 0)))
        return distance, differs, mismatch | (distance > self._bound), clean_got, clean_ref, signed

    def _integer_bound(self) -> np.uint64:
        top = 2**64 - 1
        return np.uint64(top if self._bound >= top else int(self._bound))

    def _note_worst(self, distance: np.ndarray, got: np.ndarray, ref: np.ndarray) -> None:
        """Keep the first element of the largest distance; integers stay integers until the very end."""
        if distance.size == 0:
            return
        at = int(np.argmax(distance))
        here = distance[at].item()
        if here > self._worst[0]:
            self._worst = (here, self._count + at, float(got[at]), float(ref[at]))


def is_exact(array: np.ndarray) -> bool:
    """Whether the elements are integers or booleans, to be compared without rounding."""
    return array.dtype.kind in "iub"


def integer_distance(got: np.ndarray, ref: np.ndarray) -> npt.NDArray[np.uint64]:
    """``|got - ref|`` exactly, in 64 unsigned bits: no difference of two equal-signedness integers wraps there.

    Raises ``ValueError`` for uint64 against a signed type, whose difference may not fit.
    """
    if "uint64" in (got.dtype.name, ref.dtype.name):
        if got.dtype.kind == "i" or ref.dtype.kind == "i":
            raise ValueError(f"cannot compare {got.dtype} with {ref.dtype} exactly")
        wide_got, wide_ref = got.astype(np.uint64), ref.astype(np.uint64)
        return np.where(wide_got >= wide_ref, wide_got - wide_ref, wide_ref - wide_got)
    signed_got, signed_ref = got.astype(np.int64), ref.astype(np.int64)
    # Subtraction modulo 2**64 of the larger minus the smaller is the exact distance, whatever the signs.
    bits_got, bits_ref = signed_got.view(np.uint64), signed_ref.view(np.uint64)
    return np.where(signed_got >= signed_ref, bits_got - bits_ref, bits_ref - bits_got)


def add_lanes(lanes: Floats, values: Floats) -> Floats:
    """``lanes`` (8,) plus whole blocks of flat ``values``; a short last block is filled with zeros.

    Reduction over the first axis adds whole rows one after another, in order, whatever the vector width; the blocks
    lie side by side in a row so that the rows are long.
    """
    if values.size % BLOCK:
        values = np.concatenate([values, np.zeros(-values.size % BLOCK)])
    blocks = values.reshape(-1, BLOCK // LANES, LANES)
    rows = np.ascontiguousarray(blocks.transpose(1, 0, 2)).reshape(BLOCK // LANES, -1)
    sums = np.add.reduce(rows, axis=0).reshape(-1, LANES)
    total: Floats = np.add.reduce(np.concatenate([lanes[None], sums]), axis=0)
    return total


def fold_lanes(lanes: Floats) -> float:
    """Sum of the lanes by halving, in a fixed order."""
    with np.errstate(over="ignore", invalid="ignore"):
        while lanes.size > 1:
            half = lanes.size // 2
            lanes = lanes[:half] + lanes[half:]
    return float(lanes[0])


def _bits_differ(got: np.ndarray, ref: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    same: np.ndarray = np.ascontiguousarray(got).view(unsigned) != np.ascontiguousarray(ref).view(unsigned)
    return same
