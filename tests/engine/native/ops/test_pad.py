import numpy as np
import pytest

from engine.contract.errors import UnsupportedError


def pads(*values: int) -> dict[str, np.ndarray]:
    return {"b": np.array(values, dtype=np.int64)}


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("amount", [(0, 1, 0, 2), (3, 0, 2, 0), (2, 3, 3, 1), (0, 0, 0, 0)])
def test_modes(check_op, noise, mode, amount):
    check_op("Pad", {"a": noise(4, 127)}, pads(*amount), mode=mode)


def test_the_reflection_of_the_voice_model(check_op, noise):
    got = check_op("Pad", {"a": noise(31, 576)}, pads(0, 0, 0, 64), mode="reflect")
    assert got.shape == (31, 640)


def test_value(check_op, noise):
    constants = pads(1, 1, 1, 1) | {"c": np.array(-2.5, dtype=np.float32)}
    got = check_op("Pad", {"a": noise(2, 3)}, constants)
    assert got[0, 0] == -2.5


def test_nothing_inside(check_op, noise):
    assert check_op("Pad", {"a": noise(0, 3)}, pads(2, 0, 0, 0)).shape == (2, 3)


def test_special_values_are_reflected(check_op, special):
    check_op("Pad", {"a": special}, pads(12, 12), mode="reflect")


def test_axes(check_op, noise):
    constants = pads(1, 2) | {"c": np.array(0, dtype=np.float32), "d": np.array([1], dtype=np.int64)}
    check_op("Pad", {"a": noise(2, 3, 4)}, constants, opset=18)


def test_other_modes_are_named(refrt, check_op, noise):
    with pytest.raises(AssertionError, match="mode wrap"):
        check_op("Pad", {"a": noise(2, 3)}, pads(0, 1, 0, 1), mode="wrap", opset=19)
    assert issubclass(UnsupportedError, Exception)
