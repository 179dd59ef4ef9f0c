import numpy as np
import pytest

from engine.digest import tensor_digest
from engine.models.export import export_refrt


@pytest.mark.parametrize("count", [0, 1, 3, 16, 60, 240, 4095, 4096, 4097, 20000])
def test_block_edges(refrt, one_node, noise, count):
    values = noise(count)
    export_refrt(one_node("Identity", {"a": values}), {}, refrt.folder / "m.refrt")
    assert refrt.run(refrt.folder / "m.refrt", {"a": values}).layer("y").digest == tensor_digest(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_nan_bits_are_made_canonical(refrt, one_node, dtype):
    plain = np.arange(9000).astype(dtype)
    plain[[0, 5000, 8999]] = np.nan
    word = np.dtype(f"u{plain.itemsize}")
    odd = plain.copy()
    odd.view(word)[[0, 8999]] |= word.type(1) | word.type(1 << (8 * plain.itemsize - 1))  # payload and sign
    assert odd.tobytes() != plain.tobytes()
    export_refrt(one_node("Identity", {"a": plain}), {}, refrt.folder / "m.refrt")
    first, second = (refrt.run(refrt.folder / "m.refrt", {"a": values}) for values in (plain, odd))
    assert first.layer("y").digest == second.layer("y").digest == tensor_digest(plain)
    assert second.layer("y").nonfinite.nan == 3
    assert second.output("y").tobytes() == plain.tobytes()


def test_infinities_are_counted_by_sign(refrt, one_node):
    values = np.array([np.inf, -np.inf, np.inf, 1, -0.0, np.nan], dtype=np.float32)
    export_refrt(one_node("Identity", {"a": values}), {}, refrt.folder / "m.refrt")
    seen = refrt.run(refrt.folder / "m.refrt", {"a": values}).layer("y").nonfinite
    assert (seen.nan, seen.pos_inf, seen.neg_inf) == (1, 2, 1)


def test_integers_have_nothing_to_count(refrt, one_node):
    values = np.array([0x7FF80000, -1], dtype=np.int32)
    export_refrt(one_node("Identity", {"a": values}), {}, refrt.folder / "m.refrt")
    layer = refrt.run(refrt.folder / "m.refrt", {"a": values}).layer("y")
    assert layer.nonfinite.total == 0
    assert layer.digest == tensor_digest(values)
