"""What the tests of operators on 8-bit codes share: random codes and zero points, and the shapes of products."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

#: Each example is an export and a process of its own; the fixtures hold no state.
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

types = st.sampled_from([np.uint8, np.int8])
seeds = st.integers(0, 2**32 - 1)
#: float32 scales between 2^-6 and 2, which no product brings near the rounding of float64.
scales = st.floats(2**-6, 2.0, width=32).map(np.float32)


def codes(seed: int, dtype: type, *shape: int) -> np.ndarray:
    """Random codes over the whole range, both ends included."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)


@st.composite
def products(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of two operands of numpy's matmul: vectors, empty ones and broadcast batches included."""
    m, k, n = (draw(st.integers(0, 40)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    a, b = (*batch, m, k), (k, n)
    if draw(st.booleans()):
        b = (*(draw(st.sampled_from([1, size])) for size in batch), k, n)
    if draw(st.booleans()):
        a = (k,)
    return a, b


def beside_halves(real: np.ndarray, zero: int) -> np.ndarray:
    """Where ONNX's text and its evaluator, which rounds after the odd zero point was added, agree: not at halves."""
    return (real - np.floor(real) != 0.5) | (zero % 2 == 0)
