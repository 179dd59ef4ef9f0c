import numpy as np
import pytest

from engine.contract.errors import UnsupportedError
from engine.models.export import export_refrt


@pytest.mark.parametrize("exponent", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("shape", [(127,), (3, 128), (0, 2)])
def test_exact_exponents(check_op, noise, shape, exponent):
    check_op("Pow", {"a": noise(*shape)}, {"b": np.array(exponent, dtype=np.float32)}, ulp=1)


def test_cube(check_op, noise):
    check_op("Pow", {"a": noise(127)}, {"b": np.array([3.0], dtype=np.float32)}, ulp=2)


def test_special_values(check_op, special):
    check_op("Pow", {"a": special}, {"b": np.array(2.0, dtype=np.float32)}, ulp=1)


def test_square_root_where_pow_and_sqrt_differ(check_op, special):
    finite = special[np.isfinite(special)]
    check_op("Pow", {"a": finite}, {"b": np.array(0.5, dtype=np.float32)}, ulp=1)


def test_square_root_follows_ieee_pow(refrt, one_node, special):
    feeds = {"a": np.array([-np.inf, -0.0, np.inf, np.nan], dtype=np.float32)}
    export_refrt(one_node("Pow", feeds, {"b": np.array(0.5, dtype=np.float32)}), {}, refrt.folder / "m.refrt")
    got = refrt.run(refrt.folder / "m.refrt", feeds).output("y")
    np.testing.assert_array_equal(got, np.array([np.inf, 0.0, np.inf, np.nan], dtype=np.float32))
    assert not np.signbit(got[1])


def test_integer_exponent(check_op, noise):
    check_op("Pow", {"a": noise(5)}, {"b": np.array(2, dtype=np.int64)}, ulp=1)


def test_other_exponents_are_named(check_op, noise):
    with pytest.raises(UnsupportedError, match=r"Pow node 'y': exponent \[1\.5\]"):
        check_op("Pow", {"a": noise(4)}, {"b": np.array(1.5, dtype=np.float32)})
