"""Which layers are measured, and how few bytes one bad layer moves."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.records import ObservedLayer, ReferenceLayer, Scale, Stats
from engine.contract.result import NonFinite
from engine.contract.trace import Summary, Trace, TraceLayer
from farm.choosing import MAX_SHARE, Budget, Seen, downstream

SOUND = Stats(64, 64, 0, 1e-9, 0, 1.0, 1.0, 0.0, 0.0, 64.0, 64.0, 64.0, 0)
BAD = replace(SOUND, max_abs=9.0, over_bound=64, sum_sq_diff=5000.0)


def layer(name, *inputs, final=False):
    scale = Scale(1.0, 1.0, 1.0)
    return ReferenceLayer(name, "Conv", "float32", (64,), inputs, f"golden {name}", scale, final=final)


def seen(name, stats=None):
    return ObservedLayer(name, "Conv", "float32", (64,), f"own {name}", stats=stats)


#: x → a → b → c → y, and a → d beside it.
GRAPH = (layer("a", "x"), layer("b", "a"), layer("d", "a"), layer("c", "b"), layer("y", "c", final=True))
SIZES = dict.fromkeys("abdcy", 100)


def shown(differing, outputs=BAD):
    names = frozenset(differing)
    return Seen("fp32", GRAPH, names, names, (seen("y", outputs),))


def test_an_engine_of_its_own_whose_outputs_are_sound_is_measured_whole():
    assert shown("abdcy", SOUND).first_choice({}, SIZES, Budget(0)) == frozenset("abdcy")
    assert shown("bcy", SOUND).first_choice({"a": False}, SIZES, Budget(0)) == frozenset("bcy")


def test_wrong_outputs_or_a_references_own_bits_ask_for_the_first_layer_only():
    assert shown("bcy").first_choice({"a": False, "d": False}, SIZES, Budget(0)) == {"b"}
    assert shown("bcy", SOUND).first_choice({"a": True, "d": False}, SIZES, Budget(0)) == {"b"}


def test_what_lies_behind_is_measured_as_far_as_the_bytes_reach():
    budget = Budget(250)
    assert shown("bcy").first_choice({}, {"b": 100, "c": 200, "y": 50}, budget) == {"b", "y"}
    assert budget.left == 100


def test_every_first_layer_is_measured_and_paid_for():
    budget = Budget(0)
    assert shown("bdcy").first_choice({}, SIZES, budget) == {"b", "d"}
    assert budget.left == -200


def test_a_layer_that_cannot_be_measured_still_hides_what_is_behind_it():
    found = Seen("fp32", GRAPH, frozenset("bcy"), frozenset("cy"), (seen("y", BAD),))
    assert found.first_choice({}, SIZES, Budget(0)) == frozenset()


def test_a_sound_first_layer_lets_the_rest_be_measured_and_a_bad_one_does_not():
    case = shown("bdcy")
    assert case.second_choice([seen("b", SOUND), seen("d", SOUND), seen("y")], "bd") == frozenset("cy")
    assert case.second_choice([seen("b", BAD), seen("d", SOUND)], "bd") == frozenset()
    assert shown("abdcy").second_choice([seen("a", SOUND), seen("b", BAD)], "ab") == {"d"}


def test_downstream_follows_the_graph():
    assert downstream(GRAPH, {"b"}) == frozenset("bcy")
    assert downstream(GRAPH, ()) == frozenset()


def test_the_first_calls_bytes_and_those_of_later_requests_are_set_aside(tmp_path):
    traced = TraceLayer("a", "Conv", "float32", (1000,), "0" * 32, ("x",), NonFinite(), Summary(1, 1, 1))
    trace = Trace("golden", "test", (traced,), (), Path(tmp_path))
    assert Budget.of(trace, 10).left == pytest.approx(MAX_SHARE * 4000 - 30)


@given(
    st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 3)), min_size=2, max_size=30),
    st.data(),
)
def test_one_bad_layer_costs_itself_and_at_most_the_budget(shape, data):
    reference = tuple(
        layer(f"l{i}", f"l{max(0, i - 1 - back)}" if i else "x", final=i == len(shape) - 1)
        for i, (_, back) in enumerate(shape)
    )
    sizes = {f"l{i}": size for i, (size, _) in enumerate(shape)}
    bad = data.draw(st.sampled_from(sorted(sizes)))
    differing = downstream(reference, {bad})
    left = data.draw(st.floats(0, 20_000))
    case = Seen("fp32", reference, differing, differing, ())
    matched = {name: True for name in sizes if name not in differing} or {"x": True}
    chosen = case.first_choice(matched, sizes, Budget(left))
    assert bad in chosen
    assert sum(sizes[name] for name in chosen) <= max(left, sizes[bad])
    observed = [seen(name, BAD) for name in chosen]
    assert case.second_choice(observed, chosen) == frozenset()
