"""One tensor against its reference: what is unlike in type and shape is told before a number is computed."""

from __future__ import annotations

import math

import numpy as np

from consistency import words
from consistency.metrics import scale_of
from consistency.metrics.edits import edit_distance
from consistency.tensors.layout import differing_in_order, layout_hint
from consistency.tensors.pair import Pair, rule_type
from consistency.tensors.records import Tensor, TensorStatus, TensorVerdict, dequantise
from consistency.thresholds import Profile


@np.errstate(invalid="ignore")  # a signalling NaN warns where it is widened; it is counted like any other
def compare_tensors(ref: Tensor, got: Tensor, profile: Profile) -> TensorVerdict:
    """The verdict on ``got``, judged by ``profile``; what cannot be compared is never a pass."""
    for side, tensor in (("reference", ref), ("judged", got)):
        if tensor.values is None:
            return _say(ref, "not_compared", f"{side} side: {tensor.reason or f'dtype {tensor.dtype} is not known'}")
    try:
        ref, got, note = _alike(ref, got)
    except ValueError as error:
        return _say(ref, "not_compared", str(error))
    unlike = _unlike(ref, got, profile)
    if unlike:
        return unlike
    return _strings(ref, got) if ref.dtype == "string" else Pair(ref, got, profile, note).judge()


def _unlike(ref: Tensor, got: Tensor, profile: Profile) -> TensorVerdict | None:
    for tensor in (ref, got):
        rule = profile.bounds(ref.op, rule_type(tensor.dtype), scale_of(np.zeros(1)))
        if rule is None and tensor.dtype != "string":
            return _say(ref, "not_compared", f"no rule of profile {profile.name} compares {tensor.dtype}")
    if not profile.accepts_dtype(ref.dtype, got.dtype):
        return _say(ref, "fail", f"dtype {got.dtype} where the reference has {ref.dtype}", metric="dtype")
    return _shapes(ref, got) if ref.shape != got.shape else None


def _alike(ref: Tensor, got: Tensor) -> tuple[Tensor, Tensor, str]:
    """Codes stay codes where both sides mean the same by them; otherwise both become real numbers."""
    if ref.quantisation == got.quantisation:
        return ref, got, ""
    if ref.dtype == got.dtype and None in (ref.quantisation, got.quantisation):
        return ref, got, "quantisation is declared on one side only: the codes were compared"
    return dequantise(ref), dequantise(got), ""


def _strings(ref: Tensor, got: Tensor) -> TensorVerdict:
    assert ref.values is not None and got.values is not None  # noqa: S101, PT018 - checked by the caller
    pairs = list(zip(got.values.reshape(-1).tolist(), ref.values.reshape(-1).tolist(), strict=True))
    unlike = [index for index, (mine, theirs) in enumerate(pairs) if mine != theirs]
    count = math.prod(ref.shape)
    edits = sum(edit_distance(*pairs[index]) for index in unlike)
    metrics = {"count": count, "differing": len(unlike), "worst_index": unlike[0] if unlike else None, "edits": edits}
    if not unlike:
        return _say(ref, "pass", "" if count else "empty", metric="differing", metrics=metrics)
    reason = f"{len(unlike)} of {count} strings differ, first{words.place(unlike[0], ref.shape)}"
    return _say(ref, "fail", reason, metric="differing", metrics=metrics)


def _shapes(ref: Tensor, got: Tensor) -> TensorVerdict:
    reason = f"shape {_shape(got.shape)} where the reference has {_shape(ref.shape)}"
    if ref.values is not None and got.values is not None and ref.dtype != "string":
        differing = differing_in_order(got.values, ref.values)
        hint = layout_hint(got.values, ref.values)
        if differing is not None:
            reason += f"; {differing} of {math.prod(ref.shape)} elements differ in stored order"
        if hint:
            reason += f" ({hint}; declare the layout or the shape in --meta)"
    return _say(ref, "fail", reason, metric="shape")


def _say(
    ref: Tensor,
    status: TensorStatus,
    reason: str,
    *,
    metric: str = "",
    metrics: dict[str, int | None] | None = None,
) -> TensorVerdict:
    return TensorVerdict(
        ref.name,
        status,
        reason,
        metrics=dict(metrics) if metrics is not None else None,
        metric=metric,
        op=ref.op,
        dtype=ref.dtype,
        shape=ref.shape,
        inputs=ref.inputs,
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) if shape else "scalar"
