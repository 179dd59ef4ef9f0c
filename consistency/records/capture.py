"""What was captured: tensors by digest and statistics, runs, task checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NonFinite:
    """How many elements of one tensor are NaN, +Inf and -Inf."""

    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0

    @property
    def total(self) -> int:
        """All elements that are no number."""
        return self.nan + self.pos_inf + self.neg_inf


@dataclass(frozen=True)
class Stats:
    """One tensor against the golden's, accumulated in float64 over pairs that are both finite.

    ``count`` all elements · ``differing`` elements whose bits differ · ``over_bound`` elements with
    ``|got - ref|`` above the requested bound, or non-finite on one side only · ``worst_index`` flat index
    of ``max_abs`` (-1 when nothing differs) · ``nonfinite_mismatch`` elements where exactly one side is
    non-finite or the kinds differ. The same fields as the runner contract's statistics.
    """

    count: int
    differing: int
    over_bound: int
    max_abs: float
    worst_index: int
    worst_got: float
    worst_ref: float
    sum_diff: float
    sum_sq_diff: float
    sum_sq_ref: float
    sum_sq_got: float
    dot: float
    nonfinite_mismatch: int


@dataclass(frozen=True)
class Scale:
    """Size of one golden tensor over its finite elements: RMS, 99.9th percentile and maximum of ``|x|``."""

    rms: float
    p999: float
    max_abs: float


@dataclass(frozen=True)
class ReferenceLayer:
    """One layer of the golden, with what canonical made of it.

    ``inputs`` are the ids this layer reads (graph inputs included); ``final`` marks model outputs;
    ``canonical_stats`` compares canonical with the golden and is inherited by every device whose digest
    equals ``canonical_digest``; ``reduction`` is how many products or elements each of its own is a sum of (1: none,
    0: unknown).
    """

    id: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    inputs: tuple[str, ...]
    digest: str
    scale: Scale
    nonfinite: NonFinite = NonFinite()
    final: bool = False
    canonical_digest: str | None = None
    canonical_stats: Stats | None = None
    canonical_nonfinite: NonFinite = NonFinite()
    reduction: int = 0


@dataclass(frozen=True)
class ObservedLayer:
    """One tensor as a device reported it; ``covers`` lists layers fused into it and not observable.

    ``constant_span``: all elements are equal, and the golden's range over this much; ``None`` otherwise or unknown.
    """

    id: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    layout: str = "any"
    backend: str = "cpu"
    segment: int = 0
    covers: tuple[str, ...] = ()
    nonfinite: NonFinite = NonFinite()
    stats: Stats | None = None
    constant_span: float | None = None


@dataclass(frozen=True)
class PlainRun:
    """One iteration of the plain pass: output name → digest; ``stats`` where the tensor was compared.

    ``threads`` tells runs with another number of threads apart; 0 where that is not known.
    """

    iteration: int
    outputs: Mapping[str, str]
    stats: Mapping[str, Stats] = field(default_factory=dict)
    threads: int = 0


@dataclass(frozen=True)
class TaskResult:
    """One task check of a case, judged elsewhere; ``status`` is ``pass``, ``fail`` or ``not_compared``."""

    name: str
    status: str
    expected: str = ""
    got: str = ""
    reason: str = ""


@dataclass(frozen=True)
class BaseEvidence:
    """What BASE gave for the same case on the same device; ``layers`` and ``outputs`` map ids to digests."""

    status: str
    layers: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    first_deviating: tuple[str, ...] = ()
