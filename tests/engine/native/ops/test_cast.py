import numpy as np
import pytest

from engine.contract.errors import UnsupportedError
from engine.models.export import export_refrt


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("shape", [(), (1,), (127,), (2, 3, 5), (0, 4)])
def test_integers_become_float32(check_op, dtype, shape):
    info = np.iinfo(dtype)
    values = np.random.default_rng(3).integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)
    check_op("Cast", {"a": np.asarray(values)}, to=1)


def test_what_float32_does_not_hold_is_rounded_half_to_even(check_op):
    values = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1, 2**31 - 1], dtype=np.int32)
    got = check_op("Cast", {"a": values}, to=1)
    assert got.tolist() == [2.0**24, 2.0**24 + 4, -(2.0**24), 2.0**31]


@pytest.mark.parametrize(("dtype", "to"), [(np.int64, 1), (np.uint8, 6), (np.float32, 6)])
def test_other_casts_are_unsupported(one_node, tmp_path, dtype, to):
    model = one_node("Cast", {"a": np.zeros(3, dtype)}, to=to)
    with pytest.raises(UnsupportedError, match=f"Cast node 'y': from {dtype.__name__} to .*; refrt takes uint8, int8"):
        export_refrt(model, {}, tmp_path / "m.refrt")
