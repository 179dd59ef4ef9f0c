"""Identity, Reshape, Squeeze, Unsqueeze, Flatten: no operator runs, the layers are there all the same."""

import numpy as np
import pytest

I64 = np.int64


@pytest.mark.parametrize(
    ("op", "constants", "attributes", "shape"),
    [
        ("Identity", {}, {}, (2, 1, 128)),
        ("Reshape", {"b": np.array([0, -1], dtype=I64)}, {}, (2, 128)),
        ("Squeeze", {"b": np.array([1], dtype=I64)}, {}, (2, 128)),
        ("Squeeze", {}, {}, (2, 128)),
        ("Unsqueeze", {"b": np.array([0, 4], dtype=I64)}, {}, (1, 2, 1, 128, 1)),
        ("Flatten", {}, {"axis": 2}, (2, 128)),
    ],
)
def test_views(check_op, noise, op, constants, attributes, shape):
    assert check_op(op, {"a": noise(2, 1, 128)}, constants, **attributes).shape == shape


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.float16])
def test_types(check_op, dtype):
    check_op("Reshape", {"a": np.arange(12).reshape(3, 4).astype(dtype)}, {"b": np.array([4, 3], dtype=I64)})


def test_empty(check_op, noise):
    check_op("Unsqueeze", {"a": noise(0, 3)}, {"b": np.array([1], dtype=I64)})
