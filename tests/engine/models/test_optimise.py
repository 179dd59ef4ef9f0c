"""What is fused behind Conv and MatMul, and what must not be."""

import numpy as np
import pytest

from engine.models.lowered import LoweredNode
from engine.models.optimise import Surroundings, fuse

SHAPE = (1, 4, 5, 5)


def node(op: str, inputs: str, output: str) -> LoweredNode:
    return LoweredNode(op, output, tuple(inputs.split()), (output,))


def chains(nodes, *, outputs=("end",), constants=None, views=None, shapes=None) -> dict[str, list[str]]:
    names = {name for one in nodes for name in (*one.inputs, *one.outputs)} | set(views or {})
    known = dict.fromkeys(names, SHAPE) | {"w": (4, 4, 1, 1)} | (shapes or {})
    values = {name: np.zeros(shape, dtype=np.float32) for name, shape in (constants or {}).items()}
    around = Surroundings(known | (constants or {}), values, views or {}, frozenset(outputs))
    return {item.node.outputs[0]: [s.node.outputs[0] for s in item.stages] for item in fuse(nodes, around)}


def test_a_chain_of_single_consumers_is_one_node():
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s t", "n"), node("HardSwish", "n", "h")]
    assert chains([*nodes, node("GlobalAveragePool", "h", "end")]) == {"c": ["n", "h"], "end": []}


def test_the_last_stage_may_be_the_output():
    assert chains([node("Conv", "x w", "c"), node("Relu", "c", "end")]) == {"c": ["end"]}


def test_a_value_read_twice_stays():
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Add", "r c", "end")]
    assert chains(nodes) == {"c": [], "r": [], "end": []}


def test_a_value_read_twice_by_one_node_stays():
    assert chains([node("Conv", "x w", "c"), node("Add", "c c", "end")]) == {"c": [], "end": []}


def test_a_model_output_stays():
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "end")]
    assert chains(nodes, outputs=("c", "end")) == {"c": [], "end": []}


def test_an_output_that_is_a_view_pins_its_root():
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "end")]
    assert chains(nodes, outputs=("same", "end"), views={"same": "c"}) == {"c": [], "end": []}


def test_an_identity_in_between_is_seen_through():
    nodes = [node("Conv", "x w", "c"), node("Relu", "same", "end")]
    assert chains(nodes, views={"same": "c"}) == {"c": ["end"]}


def test_a_reshape_in_between_is_not():
    nodes = [node("Conv", "x w", "c"), node("Relu", "flat", "end")]
    assert chains(nodes, views={"flat": "c"}, shapes={"flat": (100,), "end": (100,)}) == {"c": [], "end": []}


@pytest.mark.parametrize(
    ("shape", "fused"),
    [((4, 1, 1), True), ((1, 4, 1, 1), True), ((), True), ((1,), True), ((5,), False), ((4,), False), (SHAPE, False)],
)
def test_only_what_varies_along_the_channel_is_a_bias(shape, fused):
    nodes = [node("Conv", "x w", "c"), node("Add", "bias c", "end")]
    assert chains(nodes, constants={"bias": shape}) == ({"c": ["end"]} if fused else {"c": [], "end": []})


def test_behind_matmul_the_channel_is_the_last_dimension():
    nodes = [node("MatMul", "x w", "m"), node("Add", "m bias", "end")]
    assert chains(nodes, constants={"bias": (5,)}) == {"m": ["end"]}
    assert chains(nodes, constants={"bias": (4, 1, 1)}) == {"m": [], "end": []}


def test_a_sum_that_is_not_constant_stays():
    assert chains([node("Conv", "x w", "c"), node("Add", "c x", "end")]) == {"c": [], "end": []}


def test_a_scalar_bias_is_spread_over_the_channels():
    around = Surroundings({"c": SHAPE, "end": SHAPE}, {"b": np.array(2.5, np.float32)}, {}, frozenset({"end"}))
    (item,) = fuse([node("Conv", "x w", "c"), node("Add", "c b", "end")], around)
    ((name, value),) = item.stages[0].constants.items()
    assert item.stages[0].parameters == (name,)
    assert value.tolist() == [2.5] * 4


def test_at_most_eight_stages():
    nodes = [node("Conv", "x w", "r0"), *(node("Relu", f"r{i}", f"r{i + 1}") for i in range(9))]
    assert chains(nodes, outputs=("r9",)) == {"r0": [f"r{i}" for i in range(1, 9)], "r9": []}
