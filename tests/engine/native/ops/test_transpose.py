import numpy as np
import pytest

TYPES = [np.float32, np.float64, np.float16, np.int64, np.int32, np.int8, np.uint8, np.bool_]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("shape", [(127, 3, 4), (1, 128, 124), (2, 0, 3)])
def test_orders(check_op, noise, shape, order):
    check_op("Transpose", {"a": noise(*shape)}, perm=order)


def test_default_reverses(check_op, noise):
    assert check_op("Transpose", {"a": noise(3, 5, 2)}).shape == (2, 5, 3)


@pytest.mark.parametrize("dtype", TYPES)
def test_types(check_op, dtype):
    check_op("Transpose", {"a": np.arange(24).reshape(2, 3, 4).astype(dtype)}, perm=(2, 0, 1))


def test_special_values_move_unchanged(check_op, special):
    check_op("Transpose", {"a": special.reshape(1, -1)}, perm=(1, 0))
