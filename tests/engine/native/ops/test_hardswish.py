import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(1,), (127,), (2, 128, 3), (124, 5), (0, 4), ()])
def test_shapes(check_op, noise, shape):
    check_op("HardSwish", {"a": noise(*shape)}, ulp=4)


def test_special_values(check_op, special):
    check_op("HardSwish", {"a": special}, ulp=4)


def test_ends_of_the_ramp(check_op):
    got = check_op("HardSwish", {"a": np.array([-3.0, -2.999, 3.0, 100.0], dtype=np.float32)}, ulp=64)
    assert got[0] == 0.0
    assert got[3] == 100.0
