"""Sentences of a verdict, in one place so that they read alike."""

from __future__ import annotations

from collections.abc import Sequence

from consistency.metrics.ulp import ulp_distance
from consistency.records import LayerVerdict, Metrics, NonFinite, RuleOutcome


def number(value: float | None) -> str:
    """Four significant digits, or ``unknown``."""
    return "unknown" if value is None else f"{value:.4g}"


def place(flat: int | None, shape: Sequence[int]) -> str:
    """`` at index 5 [1,1,0]`` from a flat index; empty when there is none."""
    if flat is None:
        return ""
    coordinates: list[int] = []
    rest = flat
    for axis in reversed(shape):
        rest, inner = divmod(rest, axis) if axis else (0, 0)
        coordinates.append(inner)
    return f" at index {flat} [{','.join(map(str, reversed(coordinates)))}]"


def nonfinite(counts: NonFinite) -> str:
    """``3 NaN, 1 +Inf``; kinds are told apart."""
    parts = [(counts.nan, "NaN"), (counts.pos_inf, "+Inf"), (counts.neg_inf, "-Inf")]
    return ", ".join(f"{count} {kind}" for count, kind in parts if count) or "no non-finite value"


def failed_rule(name: str, op: str, rule: RuleOutcome, metrics: Metrics, shape: Sequence[int]) -> str:
    """Why one rule failed: layer, operator, metric, measured value, bound and place."""
    who = f"{op} `{name}`" if op else f"`{name}`"
    if rule.metric == "max_abs":
        values = f" (got {number(metrics.worst_got)}, golden {number(metrics.worst_ref)})"
        return (
            f"{who} differs from the golden by {number(rule.measured)} (bound {number(rule.bound)})"
            f"{place(metrics.worst_index, shape)}{values}"
        )
    if rule.metric == "differing":
        return (
            f"{who} differs in {metrics.differing} of {metrics.count} elements "
            f"({number(100 * (rule.measured or 0))} %, bound {number(100 * (rule.bound or 0))} %), "
            f"by at most {number(metrics.max_abs)}"
        )
    if rule.metric == "cosine":
        return f"{who} points elsewhere than the golden: cosine {number(rule.measured)} (at least {rule.bound})"
    if rule.metric == "norm_drift":
        return (
            f"{who} has {number(metrics.norm_ratio)} times the golden's norm "
            f"(off by {number(rule.measured)}, bound {number(rule.bound)})"
        )
    return f"{who} has {number(rule.measured)} elements that are non-finite on one side only"


def not_exact(name: str, op: str, metrics: Metrics | None, dtype: str, *, canonical_is_golden: bool) -> str:
    """Why a digest that is not canonical's fails, with what is known of the distance."""
    text = f"{op} `{name}` does not have canonical's bits"
    if metrics is None or metrics.differing is None:
        return text
    against = "" if canonical_is_golden else " (counted against the golden)"
    text += f": {metrics.differing} of {metrics.count} elements differ{against}"
    if metrics.worst_got is None or metrics.worst_ref is None:
        return text
    ulps = ulp_distance(metrics.worst_got, metrics.worst_ref, dtype)
    return text + (f", the worst by {ulps} ULP ({number(metrics.max_abs)})" if ulps is not None else "")


def inherited(count: int, unmeasured: int = 0) -> str:
    """How many later layers carry the error on, and how many behind it have other bits and no numbers."""
    parts = []
    if count:
        parts.append(f"{count} later layer{'s inherit' if count > 1 else ' inherits'} it")
    if unmeasured:
        parts.append(f"{unmeasured} more behind it {'have' if unmeasured > 1 else 'has'} other bits and no numbers")
    return "; " + ", ".join(parts) if parts else ""


def closest(layers: Sequence[LayerVerdict]) -> str:
    """How a passing case passes: bit for bit, or the layer closest to its bound."""
    compared = [layer for layer in layers if layer.status == "pass"]
    for trace in ("canonical", "golden"):
        if compared and all(layer.matched == trace for layer in compared):
            return f"all {len(compared)} compared layers equal {trace} bit for bit"
    near = nearest(compared)
    if near is None:
        return f"all {len(compared)} compared layers are within their bounds"
    return (
        f"all {len(compared)} compared layers are within their bounds; closest is {near.op} `{near.id}` "
        f"at {number(near.measured)} of {number(near.bound)}"
    )


def nearest(layers: Sequence[LayerVerdict]) -> LayerVerdict | None:
    """The layer with the largest share of its bound used; ``None`` when no bound is above zero."""
    bounded = [layer for layer in layers if layer.bound and layer.measured is not None and layer.metric == "max_abs"]
    return max(bounded, key=lambda layer: (layer.measured or 0.0) / (layer.bound or 1.0), default=None)
