"""The records that go into and come out of a comparison: small, frozen, without behaviour.

``ReferenceLayer`` and ``ObservedLayer`` are what was captured; ``Stats`` is measured on the device or
here; ``LayerVerdict`` and ``CaseVerdict`` are what is said about it. Digests are compared as text; a
digest of equal dtype and shape means equal bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

LayerStatus = Literal["pass", "fail", "not_observable", "missing", "not_compared"]
CaseStatus = Literal["pass", "fail", "crashed", "flaky", "unsupported", "not_compared", "inconclusive", "infra"]
Matched = Literal["canonical", "golden", "none"]

NOTE_CHANGED = "changed"
NOTE_NONDETERMINISTIC = "nondeterministic"
NOTE_OBSERVER_EFFECT = "observer_effect"
NOTE_ACCEPTED = "accepted"
NOTE_KNOWN_FAILURE = "known_failure"
NOTE_KNOWN_FAILURE_PASSES = "known_failure_passes"
#: BASE fails at the same first layer on the same device: the commit is not the cause.
NOTE_BASE_FAILS_TOO = "base_fails_too"


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
    equals ``canonical_digest``.
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


@dataclass(frozen=True)
class ObservedLayer:
    """One tensor as a device reported it; ``covers`` lists layers fused into it and not observable."""

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


@dataclass(frozen=True)
class Metrics:
    """Numbers about one layer. ``None`` means "not defined here" and ``reason`` says why; never NaN or Inf.

    ``scaled_rms`` is ``max_abs`` over the golden's RMS, ``scaled_p999`` over its 99.9th percentile;
    ``norm_ratio`` is ``|got| / |golden|`` in the 2-norm; ``count`` elements, ``differing`` of them in their bits.
    """

    max_abs: float | None = None
    scaled_rms: float | None = None
    scaled_p999: float | None = None
    rmse: float | None = None
    sqnr_db: float | None = None
    cosine: float | None = None
    norm_ratio: float | None = None
    over_bound: int | None = None
    differing: int | None = None
    count: int | None = None
    worst_index: int | None = None
    worst_got: float | None = None
    worst_ref: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class RuleOutcome:
    """One judged rule. ``would_pass`` is the tightest bound that would have passed (``None``: no bound would)."""

    metric: str
    measured: float | None
    bound: float | None
    would_pass: float | None
    passed: bool


@dataclass(frozen=True)
class LayerVerdict:
    """What is said about one expected layer on one device.

    ``metric``, ``measured``, ``bound`` and ``would_pass`` belong to the rule that decided (the worst one);
    ``introduced`` marks a first deviating layer, a failing layer without it inherits; ``changed`` tells
    whether the digest differs from base or accepted (``None``: nothing to compare with).
    """

    id: str
    index: int
    op: str
    status: LayerStatus
    matched: Matched = "none"
    metrics: Metrics | None = None
    nonfinite: NonFinite = NonFinite()
    metric: str = ""
    measured: float | None = None
    bound: float | None = None
    would_pass: float | None = None
    introduced: bool = False
    changed: bool | None = None
    reason: str = ""
    observed: ObservedLayer | None = None
    base_digest: str | None = None


@dataclass(frozen=True)
class PlainRun:
    """One iteration of the plain pass: output name → digest; ``stats`` where the tensor was compared."""

    iteration: int
    outputs: Mapping[str, str]
    stats: Mapping[str, Stats] = field(default_factory=dict)


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


@dataclass(frozen=True)
class Expectation:
    """A reviewed result of one case on one chip and model.

    ``outputs`` and ``layers_digest`` are the accepted bits (``consistency.expectation.layers_digest``);
    ``max_scaled`` maps a layer to the largest error over its bound seen at acceptance (its extent);
    ``tasks`` names task checks accepted as failing; ``expires`` is an ISO date, the last day it holds.
    """

    case: str
    chip_model: str
    outputs: Mapping[str, str]
    layers_digest: str | None
    first_deviating: tuple[str, ...]
    max_scaled: Mapping[str, float]
    owner: str
    reason: str
    expires: str | None = None
    kind: Literal["accepted", "known_failure"] = "accepted"
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExpectationOutcome:
    """How an expectation bears on a verdict; ``status`` of the case afterwards and the note it earns.

    ``state`` is ``unchanged``, ``changed``, ``beyond``, ``expired``, ``known_failure``, ``known_failure_worse``
    or ``known_failure_passes``.
    """

    state: str
    status: CaseStatus
    note: str | None
    owner: str
    reason: str
    expires: str | None
    explanation: str


@dataclass(frozen=True)
class CaseEvidence:
    """Everything known about one case on one device when it ran to its end.

    ``reference`` is in topological order; ``observed`` the layers of the instrumented pass; ``outputs`` the
    final outputs of the plain pass (their bytes came back, so their statistics are measured on the host);
    ``instrumented_outputs`` maps output names to digests, ``None`` when no instrumented pass ran;
    ``today`` is an ISO date; ``earlier`` the statuses of earlier attempts of the same job.
    """

    case: str
    device: str
    profile: str
    level: int
    reference: tuple[ReferenceLayer, ...]
    outputs: tuple[ObservedLayer, ...]
    plain_runs: tuple[PlainRun, ...]
    observed: tuple[ObservedLayer, ...] = ()
    instrumented_outputs: Mapping[str, str] | None = None
    base: BaseEvidence | None = None
    expectation: Expectation | None = None
    today: str = ""
    tasks: tuple[TaskResult, ...] = ()
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True)
class Worst:
    """The layer that decided a verdict, with the bound that would have passed."""

    layer: str
    metric: str
    measured: float | None
    bound: float | None
    would_pass: float | None


@dataclass(frozen=True)
class Coverage:
    """How many expected layers were compared; ``not_compared`` were seen but could not be judged."""

    expected: int
    paired: int
    not_observable: int
    missing: int
    not_compared: int = 0


@dataclass(frozen=True)
class ChangeSummary:
    """What changed against ``against`` (``base``, ``accepted`` or ``none``)."""

    against: str
    layers_changed: int = 0
    layers_compared: int = 0
    outputs_changed: tuple[str, ...] = ()
    first_changed_layer: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict of one case on one device. ``outputs`` judge the plain pass, ``layers`` the instrumented one."""

    case: str
    device: str
    profile: str
    status: CaseStatus
    notes: tuple[str, ...]
    reason: str
    first_deviating: tuple[str, ...]
    worst: Worst | None
    coverage: Coverage
    changed: ChangeSummary
    expectation: ExpectationOutcome | None
    layers: tuple[LayerVerdict, ...]
    outputs: tuple[LayerVerdict, ...]
    tasks: tuple[TaskResult, ...] = ()
    extra_layers: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChipLayer:
    """One layer of a chip pair; ``status`` is ``identical``, ``pass``, ``fail`` or ``needs_tensors``."""

    id: str
    status: str
    difference: float | None
    bound: float | None
    reason: str = ""


@dataclass(frozen=True)
class ChipPairVerdict:
    """Two chips on one case. ``needs_tensors`` lists layers that statistics alone cannot settle.

    ``status`` is ``pass``, ``fail``, ``inconclusive_needs_tensors`` or ``not_compared``.
    """

    status: str
    bit_identical: bool
    layers_equal: int
    layers_compared: int
    first_deviating: tuple[str, ...]
    first_split: str | None
    needs_tensors: tuple[str, ...]
    worst: Worst | None
    reason: str
    layers: tuple[ChipLayer, ...] = ()


@dataclass(frozen=True)
class BitGroup:
    """Devices whose compared layers all have equal digests; a shared binary and dispatch counts once."""

    devices: tuple[str, ...]
    dispatches: tuple[str, ...]
    layers: int


@dataclass(frozen=True)
class BitIdentity:
    """Bit-identity of one case over devices; ``identical_layers`` have one digest on every device."""

    groups: tuple[BitGroup, ...]
    identical_layers: int
    total_layers: int
    first_split_layer: str | None


@dataclass(frozen=True)
class GateCase:
    """What the gate needs of one case: its status and whether it was required."""

    case: str
    device: str
    status: CaseStatus
    required: bool = True
    reason: str = ""


@dataclass(frozen=True)
class GateOutcome:
    """``status`` is ``pass``, ``fail``, ``incomplete`` or ``error``; ``exit_code`` 0, 1, 3 or 2."""

    status: str
    exit_code: int
    reasons: tuple[str, ...]
