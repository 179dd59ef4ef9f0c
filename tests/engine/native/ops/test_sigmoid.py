import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(1,), (127,), (2, 128, 3), (124, 5), (0, 4), ()])
def test_shapes(check_op, noise, shape):
    check_op("Sigmoid", {"a": noise(*shape)}, ulp=4)


def test_special_values(check_op, special):
    check_op("Sigmoid", {"a": special}, ulp=4)


def test_saturation(check_op):
    got = check_op("Sigmoid", {"a": np.array([-200.0, 200.0, 0.0], dtype=np.float32)}, ulp=4)
    assert got.tolist() == [0.0, 1.0, 0.5]
