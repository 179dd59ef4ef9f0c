"""Measures beside the rules: told for a differing pair, judged by nobody."""

import dataclasses

import numpy as np
import pytest

from consistency.tensors import Tensor, compare_tensors
from consistency.thresholds import profile

FP32, INT8 = profile("fp32"), profile("int8")


def tensor(values, content=""):
    array = np.asarray(values)
    name = "string" if array.dtype.kind in "UO" else array.dtype.name
    return Tensor("y", name, array.shape, array, content=content)


def test_the_broken_channel_is_named_where_a_layer_fails():
    ref = np.random.default_rng(0).standard_normal((1, 8, 4, 4)).astype(np.float32)
    got = ref.copy()
    got[0, 5] += 1
    metrics = compare_tensors(tensor(ref), tensor(got), FP32).metrics
    assert (metrics["worst_channel"], metrics["channels_over_bound"]) == (5, 1)
    assert "worst_channel" not in compare_tensors(tensor(ref), tensor(ref * np.float32(1 + 1e-7)), FP32).metrics


def test_codes_have_their_steps_and_their_bias():
    ref = np.zeros(1000, np.int8)
    got = ref.copy()
    got[:3] = 1
    metrics = compare_tensors(tensor(ref), tensor(got), INT8).metrics
    assert (metrics["lsb"], metrics["sign_bias"]) == ("0: 997, +1: 3", 1.0)


def test_probabilities_have_divergence_and_agreement():
    ref = np.array([[0.7, 0.2, 0.1]], np.float32)
    metrics = compare_tensors(tensor(ref), tensor(ref[:, ::-1].copy()), FP32).metrics
    assert metrics["top1_agreement"] == 0.0
    assert metrics["kl_divergence"] > 1
    assert "top5_agreement" not in metrics


def test_boxes_in_another_order_are_the_same_boxes():
    boxes = np.array([[0, 0, 4, 4], [9, 9, 12, 12]], np.float32)
    metrics = compare_tensors(tensor(boxes, "boxes"), tensor(boxes[::-1].copy()), FP32).metrics
    assert (metrics["iou"], metrics["boxes_matched"], metrics["boxes_lost"]) == (1.0, 2, 0)


def test_masks_have_their_overlap():
    ref = np.array([True, True, False, False])
    metrics = compare_tensors(tensor(ref, "mask"), tensor(np.roll(ref, 1)), FP32).metrics
    assert metrics["iou"] == pytest.approx(1 / 3)


def test_text_has_its_edits():
    verdict = compare_tensors(tensor(["kitten", "same"]), tensor(["sitting", "same"]), FP32)
    assert verdict.metrics["edits"] == 3


def test_equal_tensors_have_none_of_it():
    same = tensor(np.zeros((1, 2, 3), np.int8))
    assert not {"lsb", "worst_channel", "iou"} & set(compare_tensors(same, dataclasses.replace(same), INT8).metrics)
