"""The compiled kernel and numpy give the same bits, whatever the tensors hold."""

import math
import struct
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consistency.metrics import kernel, scale_of, stats_from_arrays
from consistency.metrics.accumulate import BLOCK
from consistency.metrics.kernel import DTYPES, Kernel
from consistency.metrics.measure import Measurement, measure, span_of
from engine.toolchain import Toolchain
from farm.kernel import build


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> Iterator[None]:
    kernel.use(build(Toolchain.locate()))
    yield
    kernel.use(None)


def by_numpy(got: np.ndarray, ref: np.ndarray) -> Measurement:
    before = kernel.loaded()
    kernel.use(None)
    try:
        return measure(got, ref)
    finally:
        kernel._Loaded.kernel = before


def bits_of(measured: Measurement) -> dict[str, object]:
    """Every number by its bits: an equality of floats would call 0.0 and -0.0 the same."""
    plain = {
        name: asdict(value) if hasattr(value, "__dataclass_fields__") else value
        for name, value in vars(measured).items()
        if name not in ("got", "ref")
    }
    return {name: _bits(value) for name, value in plain.items()}


def _bits(value: object) -> object:
    if isinstance(value, dict):
        return {name: _bits(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_bits, value))
    return struct.pack("<d", value).hex() if isinstance(value, float) else value


def both(dtype: str, low: int = 0, high: int = 40) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    sizes = st.integers(low, high)
    return sizes.flatmap(lambda size: st.tuples(hnp.arrays(dtype, size), hnp.arrays(dtype, size)))


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_any_pair_has_the_same_bits_in_both_forms(dtype: str, data: st.DataObject) -> None:
    got, ref = data.draw(both(dtype))
    assert bits_of(measure(got, ref)) == bits_of(by_numpy(got, ref))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 8, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 77, 300_001])
def test_sizes_around_rows_and_blocks(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    ref = (rng.standard_normal(size) * 100).astype(dtype)
    got = (ref + rng.integers(0, 3, size)).astype(dtype)
    assert bits_of(measure(got, ref)) == bits_of(by_numpy(got, ref))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_non_finite_values_at_any_place_of_a_long_tensor(dtype: str) -> None:
    rng = np.random.default_rng(5)
    ref = rng.standard_normal(3 * BLOCK + 5).astype(dtype)
    got = ref.copy()
    for value in (np.nan, np.inf, -np.inf):
        got[rng.integers(0, got.size, 9)] = value
        ref[rng.integers(0, got.size, 9)] = value
    got[-1], ref[3] = np.nan, np.inf
    assert bits_of(measure(got, ref)) == bits_of(by_numpy(got, ref))


@pytest.mark.parametrize("bound", [0.0, 1e-3, 0.5, 1e9])
def test_what_is_over_a_bound_is_counted_as_by_numpy(bound: float) -> None:
    rng = np.random.default_rng(1)
    ref = rng.standard_normal(20_000, dtype=np.float32)
    got = ref + rng.standard_normal(20_000, dtype=np.float32)
    got[7] = np.nan
    assert measure(got, ref).bounded(bound) == stats_from_arrays(got, ref, bound)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(100_000, np.float32),
        np.repeat(np.float32([0, 3]), 50_000),
        np.linspace(-2, 2, 100_001, dtype=np.float32),
        np.where(np.arange(100_000) % 3 == 0, np.float32(-1e9), np.float32(0.5)),
        np.full(70_000, 1e-42, np.float32),
        np.exp(np.random.default_rng(2).standard_normal(200_000) * 9).astype(np.float32),
    ],
    ids=["zeros", "two values", "ramp", "mask", "subnormal", "long tail"],
)
def test_the_percentile_is_exact_whatever_the_distribution(values: np.ndarray) -> None:
    assert measure(values, values).scale == scale_of(values)
    assert measure(values, values).span == span_of(values)


def test_a_percentile_that_a_sample_misleads_about_is_still_exact() -> None:
    values = np.full(64 * 16384, 1.0, np.float32)
    values[1::64] = np.arange(16384)  # no sampled place
    assert measure(values, values).scale == scale_of(values)


def test_constant_output_is_seen_to_the_last_element() -> None:
    got = np.full(BLOCK * 2 + 3, 0.25, np.float32)
    assert measure(got, np.arange(got.size, dtype=np.float32)).constant
    got[-1] = -0.25
    assert not measure(got, np.arange(got.size, dtype=np.float32)).constant


def test_what_the_kernel_does_not_take_is_measured_by_numpy() -> None:
    held = kernel.loaded()
    assert isinstance(held, Kernel)
    halves, wide = np.ones(4, np.float16), np.ones(4, np.int64)
    strided = np.ones((4, 4), np.float32)[:, ::2]
    assert not any(held.takes(array, array) for array in (halves, wide, strided, np.ones(0, np.float32)))
    assert measure(halves, halves).stats.count == 4


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shapes differ: \[2\] and \[3\]"):
        measure(np.zeros(2), np.zeros(3))


def test_a_bound_that_is_no_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="bound must be a number that is not negative"):
        measure(np.zeros(2), np.zeros(2)).bounded(math.nan)
