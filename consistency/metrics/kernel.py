"""The compiled form of the measurement, when somebody gives it: ``use(library)``. Without it numpy does the same.

The library is ``consistency/native/measure.c``; it adds in the order of ``accumulate.py`` and so gives the same bits.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from consistency.metrics.accumulate import LANES, fold_lanes
from consistency.records import NonFinite

SUMS = 6
DTYPES = ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32")
#: A float32 percentile is looked for among the magnitudes above that of this share of a sample.
SAMPLE = 16384
LARGE_SHARE = 0.0025

Bits = npt.NDArray[np.uint32]


class Sums(ctypes.Structure):
    """What the kernel writes; ``struct Measured`` of ``measure.c``."""

    _fields_ = (
        ("sums", ctypes.c_double * LANES * SUMS),
        *((name, ctypes.c_int64) for name in ("count", "differing", "over_bound", "mismatch")),
        *((name, ctypes.c_int64) for name in ("got_nan", "got_pos", "got_neg", "ref_nan", "ref_pos", "ref_neg")),
        ("worst_index", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("worst", "worst_got", "worst_ref", "ref_low", "ref_high")),
        ("flushed", ctypes.c_int64),
        ("got_constant", ctypes.c_int64),
        ("large", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("room", "picked")),
        ("threshold", ctypes.c_uint32),
    )

    def folded(self) -> list[float]:
        """The six sums; ``inf`` where float64 overflows."""
        table = np.array(self.sums, dtype=np.float64)
        return [math.inf if math.isnan(total) else total for total in map(fold_lanes, table)]

    def nonfinite(self, side: str) -> NonFinite:
        """Counts of ``got`` or ``ref``."""
        return NonFinite(*(int(getattr(self, f"{side}_{kind}")) for kind in ("nan", "pos", "neg")))


class Kernel:
    """The loaded library. ``OSError`` or ``AttributeError`` when ``path`` is not one."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self._entries = {name: library[f"lockstep_measure_{name}"] for name in DTYPES}
        for entry in self._entries.values():
            entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
            entry.argtypes += [ctypes.c_int64, ctypes.c_double, ctypes.c_void_p]
            entry.restype = None

    def takes(self, got: np.ndarray, ref: np.ndarray) -> bool:
        """Whether it measures this pair: one type that it knows, in C order on both sides."""
        plain = got.flags.c_contiguous and ref.flags.c_contiguous and got.dtype.isnative and ref.dtype.isnative
        return plain and got.dtype == ref.dtype and got.dtype.name in DTYPES and got.size > 0

    def measure(self, got: np.ndarray, ref: np.ndarray, bound: float, least: float = math.inf) -> tuple[Sums, Bits]:
        """One pass; also the magnitudes of a float32 ``ref`` from ``least`` up, as bits in no order."""
        room = got.size // 64 + 4096 if math.isfinite(least) else 0
        large = np.empty(room, dtype=np.uint32)
        sums = Sums(ref_low=math.inf, ref_high=-math.inf, worst_index=-1, got_constant=1, room=room)
        sums.large = large.ctypes.data
        sums.threshold = int(np.float32(least).view(np.uint32))
        entry = self._entries[got.dtype.name]
        entry(got.ctypes.data, ref.ctypes.data, got.ctypes.data, got.size, bound, ctypes.addressof(sums))
        return sums, large[: min(room, sums.picked)]


class _Loaded:
    kernel: Kernel | None = None


def use(path: Path | None) -> None:
    """Measure with this library from now on; with ``None`` by numpy again."""
    _Loaded.kernel = Kernel(path) if path else None


def loaded() -> Kernel | None:
    """The library in use."""
    return _Loaded.kernel
