"""Measures that mean something for some tensors only: channels, codes, probabilities, boxes, masks."""

from __future__ import annotations

import numpy as np

from consistency.metrics.channels import channel_error
from consistency.metrics.distribution import divergence, is_distribution, top_agreement
from consistency.metrics.lsb import lsb_histogram
from consistency.metrics.overlap import mask_iou, match_boxes
from consistency.tensors.records import Tensor

Numbers = dict[str, float | int | str | None]
#: How many of the best classes are compared, where there are more than that.
BEST = (1, 5)


def extras(ref: Tensor, got: Tensor, bound: float, *, failed: bool) -> Numbers:
    """What is measured of a differing pair beyond the rules; nothing here is judged.

    Channels are looked at where the tensor failed: a broken channel is what a sum over all of them hides.
    """
    assert ref.values is not None and got.values is not None  # noqa: S101, PT018 - the caller compared them
    numbers: Numbers = {}
    if failed and (channels := channel_error(got.values, ref.values)) is not None:
        numbers["worst_channel"] = channels.worst
        numbers["worst_channel_max"] = channels.largest[channels.worst]
        numbers["channels_over_bound"] = channels.hit(bound)
    if ref.values.dtype.kind in "iu" and got.values.dtype.kind in "iu":
        steps = lsb_histogram(got.values, ref.values)
        numbers |= {"lsb": str(steps), "sign_bias": steps.bias}
    return numbers | _classes(ref.values, got.values) | _shapes_in(ref, got)


def _classes(ref: np.ndarray, got: np.ndarray) -> Numbers:
    if not is_distribution(ref):
        return {}
    agreements = {f"top{best}_agreement": top_agreement(got, ref, best) for best in BEST}
    known: Numbers = {name: share for name, share in agreements.items() if share is not None}
    return {"kl_divergence": divergence(got, ref), **known}


def _shapes_in(ref: Tensor, got: Tensor) -> Numbers:
    """Of tensors that were declared to hold boxes or a mask."""
    assert ref.values is not None and got.values is not None  # noqa: S101, PT018
    if ref.content == "mask":
        return {"iou": mask_iou(got.values, ref.values)}
    if ref.content == "boxes":
        matched = match_boxes(got.values.reshape(-1, 4), ref.values.reshape(-1, 4))
        return {"iou": matched.worst, "boxes_matched": len(matched.pairs), "boxes_lost": len(matched.only_ref)}
    return {}
