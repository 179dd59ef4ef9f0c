"""Two tensors of like type and equal shape: non-finite values, constant output, then every rule."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from consistency import hints, words
from consistency.metrics import metrics_from_stats, ulp_distance
from consistency.metrics.measure import Measurement, measure
from consistency.metrics.nonfinite import nonfinite_kinds
from consistency.records import Metrics, RuleOutcome, Stats
from consistency.tensors import clues
from consistency.tensors.extras import extras
from consistency.tensors.layout import layout_hint
from consistency.tensors.records import Tensor, TensorStatus, TensorVerdict
from consistency.thresholds import Bounds, Profile, judge

#: Narrow integers are held in a byte and judged by its rule.
_RULE_TYPE = {"int4": "int8", "uint4": "uint8"}


def rule_type(dtype: str) -> str:
    """The dtype whose rule judges ``dtype``."""
    return _RULE_TYPE.get(dtype, dtype)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two tensors of like type and equal shape."""

    ref: Tensor
    got: Tensor
    profile: Profile
    note: str

    def judge(self) -> TensorVerdict:
        """Non-finite values first, then a constant output, then every rule of the profile."""
        measured = self._measured
        dtype = rule_type(self.ref.dtype)
        bounds = self.profile.bounds(self.ref.op, dtype, measured.scale, self.ref.reduction) or Bounds(0.0)
        stats = measured.bounded(bounds.max_abs)
        metrics = metrics_from_stats(stats, measured.scale)
        found = measured.got_nonfinite
        status, metric, reason, rule = self._decide(stats, metrics, bounds)
        numbers: dict[str, float | int | str | None] = {
            **asdict(metrics),
            "mean_abs": measured.mean_abs,
            "nan": found.nan,
            "pos_inf": found.pos_inf,
            "neg_inf": found.neg_inf,
            "decided_by": metric,
            "measured": rule.measured if rule else None,
            "bound": rule.bound if rule else None,
            "would_pass": rule.would_pass if rule else None,
        }
        if stats.differing:
            numbers |= extras(self.ref, self.got, bounds.max_abs, failed=status == "fail")
        return TensorVerdict(
            name=self.ref.name,
            status=status,
            reason="; ".join(part for part in (reason, self.note) if part),
            metrics=numbers,
            metric=metric,
            op=self.ref.op,
            dtype=self.ref.dtype,
            shape=self.ref.shape,
            inputs=self.ref.inputs,
            nonfinite=found,
            span=measured.span,
        )

    @cached_property
    def _measured(self) -> Measurement:
        return measure(self._got, self._ref)

    @property
    def _ref(self) -> np.ndarray:
        assert self.ref.values is not None  # noqa: S101 - checked by compare_tensors
        return self.ref.values

    @property
    def _got(self) -> np.ndarray:
        assert self.got.values is not None  # noqa: S101 - checked by compare_tensors
        return self.got.values

    def _decide(
        self, stats: Stats, metrics: Metrics, bounds: Bounds
    ) -> tuple[TensorStatus, str, str, RuleOutcome | None]:
        known = self._before_numbers(stats, bounds)
        if known:
            return (*known, None)
        if self.profile.bitexact:
            return self._exact(stats, metrics)
        outcomes = judge(stats, bounds)
        failed = next((outcome for outcome in outcomes if not outcome.passed), None)
        if failed is None:
            return "pass", outcomes[1].metric, self._notes(stats, bounds), outcomes[1]
        return "fail", failed.metric, self._failed(failed, stats, metrics), failed

    def _before_numbers(self, stats: Stats, bounds: Bounds) -> tuple[TensorStatus, str, str] | None:
        """What is decided without a tolerance, or ``None``."""
        if stats.count == 0:
            return "pass", "differing", "empty"
        if stats.nonfinite_mismatch:
            return "fail", "nonfinite", self._nonfinite(stats)
        if self._measured.span is None:
            return "not_compared", "nonfinite", "no element is finite on either side: no number was compared"
        constant = self._constant(stats, bounds)
        return ("fail", "constant", constant) if constant else None

    def _nonfinite(self, stats: Stats) -> str:
        places = np.flatnonzero(nonfinite_kinds(self._got).reshape(-1) != nonfinite_kinds(self._ref).reshape(-1))
        got, ref = self._measured.got_nonfinite, self._measured.ref_nonfinite
        return (
            f"{words.nonfinite(got)} of {stats.count} elements where the reference has {words.nonfinite(ref)}; "
            f"first unlike{words.place(int(places[0]), self.ref.shape)}"
        )

    def _constant(self, stats: Stats, bounds: Bounds) -> str:
        """Before any tolerance: a device that always answers the same is broken, however small the answers.

        A reference that varies by no more than ``atol`` (subnormals, cancelled zeros) is as good as constant.
        """
        span = self._measured.span
        if not self._measured.constant or span is None or stats.differing == 0 or self._measured.ref_nonfinite.total:
            return ""
        value = clues.constant_value(self._got)
        floor = bounds.atol if self._ref.dtype.kind == "f" else bounds.max_abs
        if span[1] - span[0] <= floor:
            return ""
        first = int(np.flatnonzero(self._got.reshape(-1) != self._ref.reshape(-1))[0])
        return (
            f"constant output: all {stats.count} elements are {value} where the reference varies; "
            f"{stats.differing} of {stats.count} elements differ, first{words.place(first, self.ref.shape)}"
        )

    def _exact(self, stats: Stats, metrics: Metrics) -> tuple[TensorStatus, str, str, RuleOutcome]:
        rule = RuleOutcome("bits", float(stats.differing), 0.0, None, stats.differing == 0)
        if stats.differing == 0 and self.ref.dtype == self.got.dtype:
            return "pass", "bits", "", rule
        reason = f"{stats.differing} of {stats.count} elements have other bits"
        if metrics.worst_got is not None and metrics.worst_ref is not None:
            ulps = ulp_distance(metrics.worst_got, metrics.worst_ref, self.ref.dtype)
            apart = f"{ulps} ULP ({words.number(stats.max_abs)})" if ulps is not None else words.number(stats.max_abs)
            reason += f", the worst by {apart}{words.place(metrics.worst_index, self.ref.shape)}"
        return "fail", "bits", reason, rule

    def _notes(self, stats: Stats, bounds: Bounds) -> str:
        notes = [clues.flushed(self._measured.flushed, self._ref.size), hints.systematic(stats, bounds.max_abs)]
        if self._ref.dtype.kind in "iu" and stats.differing:
            share = 100 * stats.differing / stats.count
            notes.append(
                f"{stats.differing} of {stats.count} elements differ ({words.number(share)} %), "
                f"by at most {words.number(stats.max_abs)}"
            )
        if self._measured.constant and clues.constant_value(self._got) is not None:
            notes.append("constant output" + (" on both sides" if clues.constant_value(self._ref) else ""))
        return "; ".join(note for note in notes if note)

    def _failed(self, rule: RuleOutcome, stats: Stats, metrics: Metrics) -> str:
        where = words.place(metrics.worst_index, self.ref.shape)
        if rule.metric == "differing" or (self._ref.dtype.kind in "iub" and rule.metric == "max_abs"):
            share, allowed = 100 * stats.differing / stats.count, self._allowed()
            text = (
                f"{stats.differing} of {stats.count} elements differ ({words.number(share)} %, bound {allowed} %), "
                f"by at most {words.number(stats.max_abs)}{where}"
            )
        elif rule.metric == "cosine":
            text = f"points elsewhere than the reference: cosine {words.number(rule.measured)} (at least {rule.bound})"
        elif rule.metric == "norm_drift":
            ratio, bound = words.number(metrics.norm_ratio), words.number(rule.bound)
            text = f"has {ratio} times the reference's norm (bound {bound})"
        else:
            text = (
                f"differs by {words.number(stats.max_abs)} (bound {words.number(rule.bound)}){where}: "
                f"got {words.number(metrics.worst_got)}, reference {words.number(metrics.worst_ref)}; "
                f"{stats.differing} of {stats.count} elements differ"
            )
        return "; ".join(part for part in (text, *self._causes(metrics)) if part)

    def _allowed(self) -> str:
        rule = self.profile.integers.get(rule_type(self.ref.dtype), self.profile.other_integers)
        return words.number(100 * rule.max_differing)

    def _causes(self, metrics: Metrics) -> list[str]:
        steps = [side.step for side in (self.ref, self.got) if side.step is not None]
        causes = [
            layout_hint(self._got, self._ref),
            clues.channel_swap(self._got, self._ref),
            clues.constant_offset(self._got, self._ref, steps[0] if steps else None),
            hints.scaled_by(metrics.cosine, metrics.norm_ratio),
            clues.flushed(self._measured.flushed, self._ref.size),
        ]
        return [cause for cause in causes if cause]
