"""The verdict of one layer: evidence first, then non-finite values, then numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from consistency import hints, words
from consistency.matching import Match, match
from consistency.metrics.summary import metrics_from_stats
from consistency.pairing import describe_mismatch
from consistency.records import LayerStatus, LayerVerdict, Metrics, ObservedLayer, ReferenceLayer, RuleOutcome, Stats
from consistency.thresholds import Bounds, Profile, judge

#: The reason of a layer that was seen and could not be compared for want of numbers.
UNMEASURED = "no reference has this digest, and no statistics came back"


@dataclass(frozen=True)
class LayerJudge:
    """Judges the layers of one case. ``layers`` are all reference layers by id, for hints about their inputs."""

    profile: Profile
    layers: Mapping[str, ReferenceLayer]

    def judge(self, reference: ReferenceLayer, index: int, observed: ObservedLayer) -> LayerVerdict:
        """The verdict of a paired layer; whether it introduced its error is for the graph to say."""
        mismatch = self._mismatch(reference, observed)
        if mismatch:
            metric, words_ = mismatch
            reason = f"{reference.op} `{reference.id}` has {words_}"
            return LayerVerdict(
                reference.id, index, reference.op, "fail", metric=metric, reason=reason, observed=observed
            )
        found = match(reference, observed)
        if not self.profile.bitexact and found.nonfinite == reference.nonfinite and found.stats is not None:
            return self._numbers(reference, index, observed, found, found.stats)
        blank = _blank(reference, index, observed, found)
        if self.profile.bitexact:
            return self._exact(blank, reference, found)
        if found.nonfinite != reference.nonfinite:
            return self._nonfinite(blank, reference, observed, found)
        return replace(blank, reason=UNMEASURED)

    def _mismatch(self, reference: ReferenceLayer, observed: ObservedLayer) -> tuple[str, str] | None:
        if not self.profile.accepts_dtype(reference.dtype, observed.dtype):
            return "dtype", f"dtype {observed.dtype} where the golden has {reference.dtype}"
        shape = describe_mismatch(reference, observed)
        return ("shape", shape) if shape else None

    def _exact(self, blank: LayerVerdict, reference: ReferenceLayer, found: Match) -> LayerVerdict:
        if reference.canonical_digest is None:
            return replace(blank, reason="there is no canonical trace of this layer to be exact to")
        metrics = _metrics(found.stats, reference)
        if found.matched == "canonical":
            return replace(blank, status="pass", metrics=metrics, metric="digest", reason="canonical's bits")
        reason = words.not_exact(
            reference.id,
            reference.op,
            metrics,
            reference.dtype,
            canonical_is_golden=reference.canonical_digest == reference.digest,
        )
        if found.nonfinite != reference.canonical_nonfinite:
            reason += f"; it has {words.nonfinite(found.nonfinite)}"
        differing = None if metrics is None or metrics.differing is None else float(metrics.differing)
        return replace(
            blank, status="fail", metrics=metrics, metric="digest", measured=differing, bound=0.0, reason=reason
        )

    def _nonfinite(
        self, blank: LayerVerdict, reference: ReferenceLayer, observed: ObservedLayer, found: Match
    ) -> LayerVerdict:
        reason = (
            f"{reference.op} `{reference.id}` has {words.nonfinite(found.nonfinite)} of {prod(reference.shape)} "
            f"elements where the golden has {words.nonfinite(reference.nonfinite)}"
        )
        hint = hints.fp16_range(reference, observed, self.profile.base, self.layers)
        hint = hint or hints.internal(reference.op, observed.covers)
        return replace(
            blank,
            status="fail",
            metrics=_metrics(found.stats, reference),
            metric="nonfinite",
            measured=float(found.nonfinite.total),
            bound=float(reference.nonfinite.total),
            reason=f"{reason} ({hint})" if hint else reason,
        )

    def _numbers(
        self, reference: ReferenceLayer, index: int, observed: ObservedLayer, found: Match, stats: Stats
    ) -> LayerVerdict:
        bounds = self.profile.bounds(
            reference.op, reference.dtype, reference.scale, reference.reduction, observed.backend
        )
        if bounds is None or stats.count != prod(reference.shape):
            reason = (
                f"no profile rule compares {reference.dtype}"
                if bounds is None
                else f"statistics cover {stats.count} of {prod(reference.shape)} elements"
            )
            return replace(_blank(reference, index, observed, found), reason=reason)
        if constant := _constant(reference, observed, stats, bounds):
            blank = _blank(reference, index, observed, found)
            metrics = metrics_from_stats(stats, reference.scale)
            return replace(blank, status="fail", metrics=metrics, metric="constant", reason=constant)
        outcomes = judge(stats, bounds)
        decisive = next((outcome for outcome in outcomes if not outcome.passed), outcomes[1])
        metrics = metrics_from_stats(stats, reference.scale)
        if metrics.over_bound and stats.max_abs <= bounds.max_abs and not stats.nonfinite_mismatch:
            # Inherited statistics were counted against another profile's bound.
            metrics = replace(metrics, over_bound=0)
        return LayerVerdict(
            reference.id,
            index,
            reference.op,
            "pass" if decisive.passed else "fail",
            found.matched,
            metrics,
            found.nonfinite,
            decisive.metric,
            decisive.measured,
            decisive.bound,
            decisive.would_pass,
            reason=_reason(reference, observed, stats, metrics, decisive),
            observed=observed,
        )


def _blank(reference: ReferenceLayer, index: int, observed: ObservedLayer, found: Match) -> LayerVerdict:
    """What is known before anything is judged."""
    return LayerVerdict(
        reference.id,
        index,
        reference.op,
        "not_compared",
        found.matched,
        nonfinite=found.nonfinite,
        observed=observed,
    )


def unseen(reference: ReferenceLayer, index: int, status: LayerStatus, reason: str) -> LayerVerdict:
    """The verdict of a layer of which nothing was seen."""
    return LayerVerdict(reference.id, index, reference.op, status, reason=reason)


def _constant(reference: ReferenceLayer, observed: ObservedLayer, stats: Stats, bounds: Bounds) -> str:
    """Before any tolerance: a device that always answers the same is broken, however small the answers.

    A golden that varies by no more than what is rounding anyway is as good as constant.
    """
    span = observed.constant_span
    floor = bounds.atol if reference.dtype.startswith(("float", "bfloat")) else bounds.max_abs
    if span is None or span <= floor or not stats.differing or reference.nonfinite.total:
        return ""
    return (
        f"{reference.op} `{reference.id}` has constant output: all {stats.count} elements are "
        f"{words.number(stats.worst_got)} where the golden's range over {words.number(span)}"
    )


def _metrics(stats: Stats | None, reference: ReferenceLayer) -> Metrics | None:
    return metrics_from_stats(stats, reference.scale) if stats else None


def _reason(
    reference: ReferenceLayer, observed: ObservedLayer, stats: Stats, metrics: Metrics, decisive: RuleOutcome
) -> str:
    if decisive.passed:
        notes = [hints.subnormal_flush(stats, observed.dtype), hints.systematic(stats, decisive.bound or 0.0)]
        if stats.count == 0:
            notes.append("empty")
        if decisive.bound and decisive.bound >= 1 and metrics.differing:
            notes.append(
                f"{metrics.differing} of {metrics.count} elements differ, by at most {words.number(metrics.max_abs)}"
            )
    else:
        text = words.failed_rule(reference.id, reference.op, decisive, metrics, reference.shape)
        hint = hints.scaled_by(metrics.cosine, metrics.norm_ratio)
        return f"{text}; {hint}" if hint else text
    return "; ".join(note for note in notes if note)
