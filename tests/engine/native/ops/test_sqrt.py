import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(1,), (127,), (2, 128, 3), (124, 5), (0, 4), ()])
def test_shapes(check_op, noise, shape):
    check_op("Sqrt", {"a": noise(*shape)}, ulp=0)


def test_special_values(check_op, special):
    check_op("Sqrt", {"a": special}, ulp=0)


def test_below_zero_there_is_no_number(check_op):
    got = check_op("Sqrt", {"a": np.array([-1.0, 4.0, -0.0], dtype=np.float32)})
    assert np.isnan(got[0])
    assert got[1] == 2.0
    assert np.signbit(got[2])
