import numpy as np
import pytest

from consistency.metrics import count_nonfinite
from consistency.records import NonFinite


def test_counts_by_kind():
    array = np.array([[np.nan, np.inf], [-np.inf, np.nan], [0.0, 1.0]], np.float32)
    assert count_nonfinite(array) == NonFinite(nan=2, pos_inf=1, neg_inf=1)
    assert count_nonfinite(array).total == 4


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.uint8])
def test_exact_types_have_none(dtype):
    assert count_nonfinite(np.ones(3, dtype)) == NonFinite()


def test_scalar_and_empty():
    assert count_nonfinite(np.array(np.nan, np.float16)) == NonFinite(nan=1)
    assert count_nonfinite(np.zeros((0, 4), np.float16)) == NonFinite()
