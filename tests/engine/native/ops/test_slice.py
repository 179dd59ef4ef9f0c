import numpy as np
import pytest

I64 = np.int64


def constants(starts, ends, axes=None, steps=None) -> dict[str, np.ndarray]:
    given = {"b": starts, "c": ends, "d": axes, "e": steps}
    return {name: np.array(value, dtype=I64) for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([0], [2], [0], [1]),
        ([1, 0], [3, 2**62], [0, 2], [1, 1]),
        ([-3], [-1], [1], [1]),
        ([2**62], [-(2**62)], [1], [-1]),
        ([100], [3], [1], [-7]),
        ([0], [-1], [2], [3]),
        ([5], [2], [1], [1]),
        ([-1000], [1000], [-2], [2]),
    ],
)
def test_against_the_reference(check_op, noise, starts, ends, axes, steps):
    check_op("Slice", {"a": noise(4, 127, 5)}, constants(starts, ends, axes, steps))


def test_axes_default_to_the_first(check_op, noise):
    assert check_op("Slice", {"a": noise(128, 3)}, constants([2, 1], [9, 3])).shape == (7, 2)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64, np.float16])
def test_types(check_op, dtype):
    check_op("Slice", {"a": np.arange(20).reshape(4, 5).astype(dtype)}, constants([1], [5], [1], [2]))


def test_empty_result(check_op, noise):
    assert check_op("Slice", {"a": noise(4, 5)}, constants([3], [3], [0])).shape == (0, 5)
