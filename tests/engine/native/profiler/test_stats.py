"""Statistics against the golden, beside the same in numpy."""

from dataclasses import asdict

import numpy as np
import pytest

from consistency.metrics import stats_from_arrays
from engine.models.export import export_refrt


@pytest.fixture
def stats_of(refrt, one_node):
    """Run Identity on ``got`` with the golden ``ref``: the runner's statistics."""

    def run(got: np.ndarray, ref: np.ndarray, bound: float = 0.5):
        export_refrt(one_node("Identity", {"a": got}), {}, refrt.folder / "m.refrt")
        golden = {"y": refrt.golden(ref, bound)}
        return refrt.run(refrt.folder / "m.refrt", {"a": got}, golden=golden).layer("y").stats

    return run


def test_against_numpy(stats_of, noise):
    got = noise(127, 31)
    ref = got + np.where(noise(127, 31) > 2, noise(127, 31), 0).astype(np.float32)
    stats = stats_of(got, ref)
    g, r = got.reshape(-1).astype(np.float64), ref.reshape(-1).astype(np.float64)
    difference = g - r
    assert stats.count == g.size
    assert stats.differing == (got != ref).sum()
    assert stats.over_bound == (np.abs(difference) > 0.5).sum()
    assert stats.max_abs == np.abs(difference).max()
    assert stats.worst_index == np.abs(difference).argmax()
    assert (stats.worst_got, stats.worst_ref) == (g[stats.worst_index], r[stats.worst_index])
    for name, want in {
        "sum_diff": difference.sum(),
        "sum_sq_diff": (difference**2).sum(),
        "sum_sq_ref": (r**2).sum(),
        "sum_sq_got": (g**2).sum(),
        "dot": (g * r).sum(),
    }.items():
        assert getattr(stats, name) == pytest.approx(want, rel=1e-12), name
    assert stats.nonfinite_mismatch == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("size", [1, 7, 4095, 4096, 4097, 20_011])
def test_the_same_bits_as_on_the_host(stats_of, dtype, size):
    rng = np.random.default_rng(size)
    ref = (rng.standard_normal(size) * 90).astype(dtype)
    got = (ref + rng.integers(0, 3, size).astype(dtype)).astype(dtype)
    if dtype.startswith("float"):
        got[size // 2], ref[size // 3] = np.nan, np.inf
    assert asdict(stats_of(got, ref)) == asdict(stats_from_arrays(got, ref, 0.5))


def test_equal_tensors(stats_of, noise):
    stats = stats_of(noise(128), noise(128), bound=0.0)
    assert (stats.differing, stats.over_bound, stats.max_abs, stats.worst_index) == (0, 0, 0.0, -1)


def test_what_is_no_number_is_counted_and_left_out_of_the_sums(stats_of):
    got = np.array([1, np.nan, np.inf, np.inf, np.nan, -np.inf, 2], dtype=np.float32)
    ref = np.array([1, np.nan, np.inf, -np.inf, 5, 7, 2.25], dtype=np.float32)
    stats = stats_of(got, ref)
    assert stats.nonfinite_mismatch == 3
    assert stats.over_bound == 3
    assert stats.differing == 4
    assert stats.sum_sq_ref == 1 + 2.25**2
    assert (stats.max_abs, stats.worst_index) == (0.25, 6)


def test_signed_zeros_differ_in_bits_only(stats_of):
    stats = stats_of(np.array([0.0, 1], dtype=np.float32), np.array([-0.0, 1], dtype=np.float32), bound=0.0)
    assert (stats.differing, stats.over_bound, stats.max_abs, stats.worst_index) == (1, 0, 0.0, -1)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.uint8])
def test_integers_never_wrap(stats_of, dtype):
    ends = np.iinfo(dtype)
    stats = stats_of(np.array([ends.max, 1], dtype=dtype), np.array([ends.min, 1], dtype=dtype))
    assert stats.max_abs == float(int(ends.max) - int(ends.min))
    assert stats.worst_index == 0
    assert stats.sum_diff == stats.max_abs


def test_half_precision(stats_of):
    got = np.array([1.5, 6e-8, -65504, 0.1], dtype=np.float16)
    ref = np.array([1.25, 0, 65504, 0.1], dtype=np.float16)
    stats = stats_of(got, ref)
    assert stats.max_abs == 131008
    assert stats.differing == 3
    assert stats.sum_diff == pytest.approx(float((got.astype(np.float64) - ref.astype(np.float64)).sum()))


def test_sums_stay_finite(stats_of):
    values = np.array([1e300, -1e300], dtype=np.float64)
    stats = stats_of(values, -values)
    assert stats.sum_sq_diff == np.finfo(np.float64).max


def test_golden_of_another_shape_is_refused(refrt, one_node, noise):
    export_refrt(one_node("Relu", {"a": noise(4)}), {}, refrt.folder / "m.refrt")
    request = refrt.request(refrt.folder / "m.refrt", {"a": noise(4)}, golden={"y": refrt.golden(noise(5), 1.0)})
    done = refrt.send(request.to_json())
    assert done.returncode == 2
    assert "golden of layer y is float32[5]; the model has float32[4]" in done.stderr


def test_unknown_layer_is_named(refrt, one_node, noise):
    export_refrt(one_node("Relu", {"a": noise(4)}), {}, refrt.folder / "m.refrt")
    request = refrt.request(refrt.folder / "m.refrt", {"a": noise(4)}, keep=("nope",))
    done = refrt.send(request.to_json())
    assert done.returncode == 2
    assert "request.keep names layer nope, which the model lacks" in done.stderr
