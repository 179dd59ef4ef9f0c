"""Steps of a run that feeds itself, as a decoder does: told by name, compared from step 0 on.

A step's error reaches every later one, so the first step that disagrees is where to look. One tensor of one step may be
a single token: that it never changes is seen only over the steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from consistency import words
from consistency.metrics import scale_of
from consistency.tensors.pair import rule_type
from consistency.tensors.records import Tensor, TensorVerdict
from consistency.thresholds import Bounds, Profile

#: Fewer equal steps than this say nothing.
LEAST_STEPS = 3
_STEP = re.compile(r"(?:step|iteration|iter)[-_]?(\d{1,9})", re.IGNORECASE)

Loaded = Callable[[], tuple[Tensor, Tensor]]
"""One step of a series: the reference's tensor and the judged one."""


def step_of(name: str) -> tuple[int, str] | None:
    """The step that a part of the path ``name`` tells (``step-3``, ``iter_3``, …), and the name without that part."""
    parts = name.split("/")
    for index, part in enumerate(parts):
        if found := _STEP.fullmatch(part):
            return int(found[1]), "/".join(parts[:index] + parts[index + 1 :])
    return None


def in_steps(names: Iterable[str]) -> list[str]:
    """``names`` by step, as numbers and not as text; what belongs to no step first, else in the order given."""

    def number(name: str) -> int:
        step = step_of(name)
        return -1 if step is None else step[0]

    return sorted(names, key=number)


def series_of(names: Iterable[str]) -> dict[str, list[str]]:
    """Name without its step → the names of its steps in order. Names without a step are left out."""
    series: dict[str, list[str]] = {}
    for name in in_steps(names):
        if (step := step_of(name)) is not None:
            series.setdefault(step[1], []).append(name)
    return series


def constant_over_steps(steps: Sequence[Loaded], profile: Profile) -> str:
    """Why a series is constant, or an empty text: the judged side gives one result at every step, the reference varies.

    Before any tolerance, as for the elements of one tensor: a reference that varies by no more than what is rounding
    anyway is as good as constant. Steps are loaded in turn, only until the judged side changes.
    """
    if len(steps) < LEAST_STEPS:
        return ""
    ref, got = steps[0]()
    apart = 0.0
    for load in steps[1:]:
        later_ref, later_got = load()
        if not _same(later_got, got):
            return ""
        apart = max(apart, _apart(later_ref, ref))
    if ref.values is None or apart <= _floor(ref, profile):
        return ""
    assert got.values is not None  # noqa: S101 - the same as itself, so it has numbers
    what = f"{words.number(float(got.values.reshape(-1)[0]))}" if got.values.size == 1 else "the same tensor"
    return f"constant output: {what} in all {len(steps)} steps where the reference varies"


def flagged(verdict: TensorVerdict, constant: str) -> TensorVerdict:
    """A verdict of a series that is ``constant``; a step that has the reference's very bits stays as it is."""
    if verdict.status not in ("pass", "fail") or verdict.metrics is None or not verdict.metrics.get("differing"):
        return verdict
    metrics = {**verdict.metrics, "decided_by": "constant"}
    reason = "; ".join(part for part in (constant, verdict.reason) if part)
    return replace(verdict, status="fail", metric="constant", metrics=metrics, reason=reason)


def first_step(verdicts: Iterable[TensorVerdict]) -> int | None:
    """The first step with a failing layer; ``None`` without one."""
    steps = (step_of(verdict.name) for verdict in verdicts if verdict.status == "fail")
    return min((step[0] for step in steps if step is not None), default=None)


def behind_first_step(verdicts: Sequence[TensorVerdict]) -> tuple[TensorVerdict, ...]:
    """Layers of later steps introduce nothing that is known: the first step that disagrees was fed to them."""
    first = first_step(verdicts)
    return tuple(verdict if first is None else _behind(verdict, first) for verdict in verdicts)


def _behind(verdict: TensorVerdict, first: int) -> TensorVerdict:
    step = step_of(verdict.name)
    if not verdict.introduced or step is None or step[0] <= first:
        return verdict
    told = f"behind step {first}, which disagrees already"
    return replace(verdict, introduced=False, reason=verdict.reason.replace("first deviating layer", told, 1))


def _same(one: Tensor, other: Tensor) -> bool:
    if one.values is None or other.values is None or one.values.dtype.kind not in "fiub" or not one.values.size:
        return False
    return one.dtype == other.dtype and one.values.tobytes() == other.values.tobytes() and one.shape == other.shape


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest finite distance of two steps of the reference; 0 where there is none to tell."""
    if one.values is None or other.values is None or one.shape != other.shape or one.values.dtype.kind not in "fiub":
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(one.values.astype(np.float64) - other.values.astype(np.float64))
    finite = apart[np.isfinite(apart)]
    return float(finite.max()) if finite.size else 0.0


def _floor(ref: Tensor, profile: Profile) -> float:
    """What a reference may vary by and still be as good as constant."""
    assert ref.values is not None  # noqa: S101 - asked only of numbers
    bounds = profile.bounds(ref.op, rule_type(ref.dtype), scale_of(ref.values), ref.reduction) or Bounds(0.0)
    return bounds.atol if ref.values.dtype.kind == "f" else bounds.max_abs
