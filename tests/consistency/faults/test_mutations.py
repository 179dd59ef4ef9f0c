import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consistency.faults import mutated, mutations
from consistency.tensors import Tensor, compare_tensors
from consistency.thresholds import profile

KINDS = ["byte_order", "channels_last", "clipped", "constant", "half_precision", "one_nan", "one_spike"]
KINDS += ["repeated_block", "scaled", "shifted", "transposed", "zero_tail"]


def tensor(array: np.ndarray) -> Tensor:
    return Tensor("x", array.dtype.name, array.shape, array, op="Conv")


def test_kinds_are_found_by_file_name() -> None:
    assert list(mutations()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_an_ordinary_layer_and_is_found(kind: str) -> None:
    array = np.random.default_rng(5).standard_normal((1, 6, 8, 8)).astype(np.float32)
    before = array.copy()
    changed = mutated(kind, array)
    assert changed is not None
    assert (changed.shape, changed.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(array, before)
    assert compare_tensors(tensor(array), tensor(changed), profile("fp32")).status == "fail"


@pytest.mark.parametrize("kind", KINDS)
@given(
    array=hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int32, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0),
    )
)
def test_a_mutation_keeps_shape_and_type_or_says_that_there_is_none(kind: str, array: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        changed = mutated(kind, array)
    if changed is not None:
        assert (changed.shape, changed.dtype) == (array.shape, array.dtype)
        assert changed.tobytes() != array.tobytes()
