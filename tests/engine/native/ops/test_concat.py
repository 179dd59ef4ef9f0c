import numpy as np
import pytest


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_axes(check_op, noise, axis):
    shapes = [[3, 5, 4], [3, 5, 4], [3, 5, 4]]
    for index, shape in enumerate(shapes):
        shape[axis] = 127 + index
    feeds = dict(zip("abc", (noise(*shape) for shape in shapes), strict=True))
    check_op("Concat", feeds, axis=axis)


def test_an_empty_part(check_op, noise):
    assert check_op("Concat", {"a": noise(2, 0), "b": noise(2, 3)}, axis=1).shape == (2, 3)


def test_one_input_and_a_constant(check_op, noise):
    check_op("Concat", {"a": noise(2, 3)}, {"b": noise(1, 3)}, axis=0)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_types(check_op, dtype):
    part = np.arange(6).reshape(2, 3).astype(dtype)
    check_op("Concat", {"a": part, "b": part}, axis=0)
