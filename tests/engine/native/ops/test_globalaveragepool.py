import numpy as np
import pytest


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 127, 7, 7), (1, 3, 128), (1, 5, 3, 4, 5)])
def test_shapes(check_op, noise, shape):
    check_op("GlobalAveragePool", {"a": noise(*shape) + np.float32(9)}, ulp=8)


def test_one_rounding_of_the_exact_mean(check_op):
    values = np.full((1, 1, 3), 2.0**24, dtype=np.float32)
    values[0, 0, 1] = 1.0  # a float32 sum would lose it
    got = check_op("GlobalAveragePool", {"a": values}, ulp=8)
    assert got.item() == np.float32((2.0**25 + 1) / 3)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_poison_stays_in_its_channel(check_op, poison):
    values = np.ones((1, 2, 4, 4), dtype=np.float32)
    values[0, 1, 2, 2] = poison
    got = check_op("GlobalAveragePool", {"a": values})
    assert got[0, 0, 0, 0] == 1.0
    assert not np.isfinite(got[0, 1, 0, 0])
