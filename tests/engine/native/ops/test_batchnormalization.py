import numpy as np
import pytest


def parameters(channels: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(channels)
    names = {"b": 1.0, "c": 0.0, "d": 0.0, "e": 1.0}  # scale, bias, mean, variance
    values = {name: base + 0.2 * generator.standard_normal(channels) for name, base in names.items()}
    return {name: np.abs(value).astype(np.float32) + np.float32(0.1) for name, value in values.items()}


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 127, 3, 5), (1, 3, 128), (3, 5), (1, 2, 0, 4)])
def test_shapes(check_op, noise, shape):
    # two roundings instead of the reference's five: compared on the scale of the values
    try:
        check_op("BatchNormalization", {"a": noise(*shape)}, parameters(shape[1]), ulp=2000, epsilon=1e-3)
    except AssertionError as error:
        raise AssertionError(f"{shape}") from error


def test_bits_are_one_product_and_one_sum(check_op, noise):
    values, constants = noise(2, 3, 31), parameters(3)
    got = check_op("BatchNormalization", {"a": values}, constants, ulp=2000, epsilon=1e-5)
    gamma, beta, mean, variance = (constants[name].astype(np.float64) for name in "bcde")
    scale = gamma / np.sqrt(variance + np.float64(np.float32(1e-5)))
    shift = (beta - mean * scale).astype(np.float32)
    want = values * scale.astype(np.float32)[None, :, None] + shift[None, :, None]
    assert np.array_equal(got, want)


def test_special_values(check_op, special):
    check_op("BatchNormalization", {"a": special.reshape(1, 1, -1)}, parameters(1), ulp=16)
