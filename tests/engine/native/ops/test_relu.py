import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(1,), (127,), (2, 128, 3), (124, 5), (0, 4), ()])
def test_shapes(check_op, noise, shape):
    check_op("Relu", {"a": noise(*shape)}, ulp=0)


def test_special_values(check_op, special):
    check_op("Relu", {"a": special}, ulp=0)


def test_negative_numbers_become_zero(check_op):
    got = check_op("Relu", {"a": np.array([-2.5, -1e-45, 4.5], dtype=np.float32)})
    assert got.tolist() == [0.0, 0.0, 4.5]
