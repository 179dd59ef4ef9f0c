import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.localise import first_deviating, topological
from consistency.records import ReferenceLayer, Scale


def ref(name, *inputs):
    return ReferenceLayer(name, "Add", "float32", (1,), inputs, "g", Scale(1, 1, 1))


DIAMOND = [ref("a", "x"), ref("left", "a"), ref("right", "a"), ref("join", "left", "right")]


def test_only_layers_without_a_deviating_ancestor_introduce():
    frontier = first_deviating(DIAMOND, {"left", "join"})
    assert (frontier.introduced, frontier.inherited) == (("left",), ("join",))


def test_all_frontiers_are_listed_in_topological_order():
    assert first_deviating(DIAMOND, {"right", "left", "join"}).introduced == ("left", "right")


def test_taint_passes_through_layers_that_were_not_seen():
    chain = [ref("a", "x"), ref("hidden", "a"), ref("c", "hidden")]
    frontier = first_deviating(chain, {"a", "c"})
    assert (frontier.introduced, frontier.inherited) == (("a",), ("c",))


def test_the_last_in_the_list_is_not_downstream_of_the_first():
    branches = [ref("a", "x"), ref("b", "x")]
    assert first_deviating(branches, {"a", "b"}).introduced == ("a", "b")


def test_nothing_deviates():
    assert first_deviating(DIAMOND, ()).introduced == ()


def test_a_list_out_of_order_is_put_in_order():
    assert [layer.id for layer in topological(DIAMOND[::-1])] == ["a", "left", "right", "join"] or [
        layer.id for layer in topological(DIAMOND[::-1])
    ] == ["a", "right", "left", "join"]
    assert first_deviating(DIAMOND[::-1], {"a", "join"}).introduced == ("a",)


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle through"):
        topological([ref("a", "b"), ref("b", "a")])


def test_a_name_given_twice_is_refused():
    with pytest.raises(ValueError, match="names a layer twice"):
        topological([ref("a"), ref("a")])


def test_a_deep_graph_does_not_exhaust_the_stack():
    deep = [ref(f"n{i}", f"n{i - 1}") for i in range(20_000)]
    assert len(topological(deep[::-1])) == 20_000


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 12))
    layers = [
        ref(f"n{i}", *(f"n{j}" for j in draw(st.sets(st.integers(0, i - 1), max_size=3)))) if i else ref("n0")
        for i in range(size)
    ]
    return layers, draw(st.sets(st.sampled_from([layer.id for layer in layers])))


@given(graphs())
def test_the_frontier_splits_the_deviating_layers_and_nothing_else(graph):
    layers, deviating = graph
    frontier = first_deviating(layers, deviating)
    assert set(frontier.introduced) | set(frontier.inherited) == deviating
    assert not set(frontier.introduced) & set(frontier.inherited)
    assert bool(frontier.introduced) == bool(deviating)
    inputs = {layer.id: layer.inputs for layer in layers}

    def ancestors(name):
        return set(inputs[name]).union(*(ancestors(other) for other in inputs[name]))

    for name in deviating:
        assert (name in frontier.introduced) == (not ancestors(name) & deviating)
