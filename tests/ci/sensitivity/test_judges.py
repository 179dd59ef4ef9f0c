import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ci.sensitivity.judges import Reference, allclose, cosine, cosine_and_rmse, polygraphy

ROW = np.array([1.0, -2.0, 3.0, 0.5], dtype=np.float32)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (ROW, (False, False, False)),
        (ROW * 2, (True, False, True)),  # a cosine does not see a scale
        (-ROW, (True, True, True)),
        (ROW + np.float32(1e-7), (False, False, False)),
        (np.where(ROW > 2, np.nan, ROW), (True, True, True)),
        (np.zeros(4, np.float32), (True, True, True)),
    ],
)
def test_the_rules_in_common_use(got: np.ndarray, expected: tuple[bool, bool, bool]) -> None:
    assert (allclose(ROW, got), cosine(ROW, got), cosine_and_rmse(ROW, got)) == expected


def test_two_arrays_of_zeros_agree() -> None:
    zeros = np.zeros(4, np.float32)
    assert not cosine_and_rmse(zeros, zeros)


def test_polygraphy_s_default_needs_both_bounds_exceeded() -> None:
    deviates = polygraphy()
    assert deviates is not None
    assert not deviates(np.float32([1e-7, 1.0]), np.float32([2e-7, 1.0]))
    assert deviates(np.float32([1.0, 1.0]), np.float32([1.0, 1.001]))


@pytest.fixture
def reference() -> Reference:
    """x → a → (b, c) → d, where b and c do not depend on each other."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Abs", ["a"], ["c"]),
        helper.make_node("Add", ["b", "c"], ["d"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "d")]
    model = helper.make_model(helper.make_graph(nodes, "diamond", ends[:1], ends[1:]))
    assert isinstance(model, onnx.ModelProto)
    return Reference(model, {name: ROW + place for place, name in enumerate("abcd")})


@pytest.mark.parametrize(
    ("broken", "first"), [("a", ("a",)), ("bc", ("b", "c")), ("cd", ("c",)), ("d", ("d",)), ("", ())]
)
def test_every_judge_is_told_by_the_graph_which_layer_came_first(
    reference: Reference, broken: str, first: tuple[str, ...]
) -> None:
    got = {name: array * (3 if name in broken else 1) for name, array in reference.tensors.items()}
    assert reference.ours(got, "fp32").first == first
    assert reference.peer(got, allclose).first == first
    assert reference.ours(got, "fp32").failing == tuple(broken)


def test_the_change_is_of_final_outputs_and_infinite_where_a_number_is_lost(reference: Reference) -> None:
    got = dict(reference.tensors)
    assert reference.change({**got, "a": ROW * 9}) == 0.0
    assert reference.change({**got, "d": got["d"] + np.float32(0.6)}) == pytest.approx(0.1)
    assert reference.change({**got, "d": got["d"] * np.float32(np.nan)}) == float("inf")
