"""What Add, Sub, Mul and Div share: broadcasting, special values, a constant operand."""

import numpy as np
import pytest

PAIRS = [
    ((127,), (127,)),
    ((2, 3, 128), (3, 1)),
    ((3, 1), (2, 3, 128)),
    ((1, 16, 5, 7), (1, 16, 1, 1)),
    ((4, 1, 124), (1, 5, 1)),
    ((2, 3, 4), ()),
    ((), (2, 3)),
    ((1, 1), (1,)),
    ((0, 3), (1, 3)),
    ((2, 0, 4), (4,)),
    ((2, 1, 3, 1, 2), (1, 4, 1, 5, 2)),
]


class Arithmetic:
    """Derive with ``op`` set to the operator's name."""

    op: str

    @pytest.mark.parametrize(("left", "right"), PAIRS)
    def test_broadcasting(self, check_op, noise, left, right):
        check_op(self.op, {"a": noise(*left), "b": noise(*right) + np.float32(0.25)})

    def test_special_values_against_each_other(self, check_op, special):
        check_op(self.op, {"a": special.reshape(-1, 1), "b": special.reshape(1, -1)})

    def test_a_constant_operand(self, check_op, noise):
        check_op(self.op, {"a": noise(2, 5)}, {"b": np.array([1.5, -2, 3, 0.1, 7], dtype=np.float32)})
