import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.metrics import ulp_distance


def test_two_last_places():  # A13
    assert ulp_distance(-1.8208287954330444, -1.8208290338516235, "float32") == 2


@pytest.mark.parametrize(
    ("got", "ref", "dtype", "ulps"),
    [
        (0.0, -0.0, "float32", 0),
        (1e-45, -1e-45, "float32", 2),
        (1.0, float(np.nextafter(np.float16(1), np.float16(2))), "float16", 1),
        (1.0, float(np.nextafter(1.0, 0.0)), "float64", 1),
        (float("nan"), 1.0, "float32", None),
        (1.0, 1.0, "int8", None),
    ],
)
def test_distance(got, ref, dtype, ulps):
    assert ulp_distance(got, ref, dtype) == ulps


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)
def test_is_a_distance(a, b):
    assert ulp_distance(a, b, "float32") == ulp_distance(b, a, "float32")
    assert (ulp_distance(a, b, "float32") == 0) == (a == b)
