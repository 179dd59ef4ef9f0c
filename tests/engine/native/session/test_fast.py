"""The fast flavour: an honest divergent engine. Other bits, the same answer, the same respect for NaN."""

import numpy as np
import pytest

from engine.models.export import export_refrt

OPS = {
    "Conv": ((1, 64, 31, 29), {"b": (48, 64, 3, 3)}),
    "MatMul": ((127, 300), {"b": (300, 65)}),
    "Softmax": ((31, 1000), {}),
    "Sigmoid": ((124, 128), {}),
}


@pytest.mark.parametrize("op", OPS)
def test_other_bits_within_the_scale_of_the_layer(refrt, refrt_fast, one_node, noise, op):
    shape, parameters = OPS[op]
    feeds = {"a": noise(*shape, scale=1.0)}
    model = one_node(op, feeds, {name: noise(*size, scale=0.1) for name, size in parameters.items()})
    export_refrt(model, {}, refrt.folder / "m.refrt")
    exact, fast = (engine.run(refrt.folder / "m.refrt", feeds).output("y") for engine in (refrt, refrt_fast))
    assert not np.array_equal(exact, fast)
    scale = np.sqrt(np.mean(exact.astype(np.float64) ** 2))
    assert np.abs(exact.astype(np.float64) - fast).max() <= 1e-5 * scale


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "HardSwish", "Softmax", "GlobalAveragePool"])
def test_nan_survives(refrt_fast, one_node, op):
    values = np.ones((1, 2, 3, 3), dtype=np.float32)
    values[0, 1, 1, 1] = np.nan
    export_refrt(one_node(op, {"a": values}), {}, refrt_fast.folder / "m.refrt")
    answer = refrt_fast.run(refrt_fast.folder / "m.refrt", {"a": values})
    assert answer.layer("y").nonfinite.nan > 0
    assert np.isnan(answer.output("y")).any()


def test_it_says_what_it_is(refrt_fast):
    assert refrt_fast.call("--version").stdout.endswith("(fast)\n")
