"""What is said about the layers of one case, and about the case."""

from __future__ import annotations

from dataclasses import dataclass, field

from consistency.records.capture import NonFinite, ObservedLayer, TaskResult
from consistency.records.expectation import ExpectationOutcome
from consistency.records.names import CaseStatus, LayerStatus, Matched
from consistency.records.referee import SecondOpinion
from consistency.records.repeats import LayerRepeats


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
class AloneVerdict:
    """What one layer gave on a reference's inputs: the error it introduces, judged like any layer.

    ``on`` names the reference whose inputs it had; ``ran`` tells a layer that ran alone on them from one that had them
    in the whole model already.
    """

    status: LayerStatus
    metrics: Metrics | None
    nonfinite: NonFinite
    metric: str
    measured: float | None
    bound: float | None
    reason: str
    on: Matched = "golden"
    ran: bool = True


@dataclass(frozen=True)
class LayerVerdict:
    """What is said about one expected layer on one device.

    ``metric``, ``measured``, ``bound`` and ``would_pass`` belong to the rule that decided (the worst one);
    ``introduced`` marks a layer to blame, a failing layer without it inherits: with ``alone`` evidence the layer
    that fails by itself, otherwise the first deviating one. ``changed`` tells whether the digest differs from base
    or accepted (``None``: nothing to compare with). ``behind`` names the failing layer that a layer lies behind of
    which only the digest is known.
    """

    id: str
    index: int
    op: str
    status: LayerStatus
    matched: Matched = "none"
    metrics: Metrics | None = None
    nonfinite: NonFinite = field(default_factory=NonFinite)
    metric: str = ""
    measured: float | None = None
    bound: float | None = None
    would_pass: float | None = None
    introduced: bool = False
    changed: bool | None = None
    reason: str = ""
    observed: ObservedLayer | None = None
    base_digest: str | None = None
    alone: AloneVerdict | None = None
    behind: str | None = None


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
    """The verdict of one case on one device. ``outputs`` judge the plain pass, ``layers`` the instrumented one.

    ``opinion`` is what the other referees say of a failure that canonical shares, ``inner`` how the layers agree with
    themselves from run to run.
    """

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
    opinion: SecondOpinion | None = None
    inner: LayerRepeats = field(default_factory=LayerRepeats)
