import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(1,), (127,), (2, 128, 3), (124, 5), (0, 4)])
def test_shapes(check_op, noise, shape):
    check_op("HardSigmoid", {"a": noise(*shape)}, ulp=8, alpha=1 / 6, beta=0.5)


def test_defaults(check_op, noise):
    check_op("HardSigmoid", {"a": noise(64)}, ulp=8)


def test_special_values(check_op, special):
    got = check_op("HardSigmoid", {"a": special}, ulp=2, alpha=0.25, beta=0.5)
    assert got[7] == 1.0
    assert got[8] == 0.0
    assert np.isnan(got[9])
