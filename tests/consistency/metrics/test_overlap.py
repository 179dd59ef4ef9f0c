import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.metrics.overlap import mask_iou, match_boxes

BOXES = np.array([[0, 0, 10, 10], [20, 20, 30, 30], [5, 5, 6, 6]], dtype=np.float32)


def test_masks():
    assert mask_iou(np.array([1, 1, 0, 0]), np.array([0, 1, 1, 0])) == pytest.approx(1 / 3)
    assert mask_iou(np.zeros(4), np.zeros(4)) == 1.0
    assert mask_iou(np.ones(4), np.zeros(4)) == 0.0
    with pytest.raises(ValueError, match="shapes differ"):
        mask_iou(np.zeros(3), np.zeros(4))


@given(st.permutations(range(3)))
def test_the_order_of_boxes_does_not_matter(order):
    found = match_boxes(BOXES[list(order)], BOXES)
    assert found.worst == 1.0
    assert sorted((order[mine], theirs) for mine, theirs, _ in found.pairs) == [(0, 0), (1, 1), (2, 2)]


def test_a_known_overlap():
    shifted = BOXES + np.array([5, 0, 5, 0])
    found = match_boxes(shifted[:1], BOXES[:1], least=0.1)
    assert found.worst == pytest.approx(1 / 3)


def test_a_box_without_a_partner_is_the_worst():
    found = match_boxes(BOXES[:2], BOXES)
    assert (found.only_got, found.only_ref, found.worst) == ((), (2,), 0.0)


def test_no_boxes_on_either_side():
    assert match_boxes(np.zeros((0, 4)), np.zeros((0, 4))).worst == 1.0
    assert match_boxes(np.zeros((0, 4)), BOXES).worst == 0.0


@pytest.mark.parametrize("box", [[0, 0, np.nan, 1], [0, 0, np.inf, 1], [3, 3, 0, 0]])
def test_no_box_at_all_overlaps_nothing(box):
    assert match_boxes(np.array([box], float), np.array([box], float)).worst == 0.0


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"\(N, 4\), not \[4\]"):
        match_boxes(np.zeros(4), BOXES)
