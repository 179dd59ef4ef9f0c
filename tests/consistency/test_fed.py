"""What a layer introduces, told by inputs that had a reference's bits in the whole model already."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.judge_layers import judge_layers
from consistency.thresholds import absolute_bound, profile
from consistency.verdict import judge_case
from tests.consistency.builders import Node, evidence_of, observe_all, reference_of

FP32 = profile("fp32")


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=64).astype(np.float32)


def off(node: Node, by: float) -> Node:
    return replace(node, value=(node.value + np.float32(by)).astype(np.float32))


GOLDEN = [
    Node("a", "Conv", ("x",), values(0)),
    Node("b", "Conv", ("a",), values(1)),
    Node("c", "Conv", ("a", "b"), values(2)),
    Node("y", "Conv", ("c",), values(3)),
]
CANONICAL = [off(node, 1e-6) for node in GOLDEN]
BOUND = {layer.id: absolute_bound(FP32, layer) for layer in reference_of(GOLDEN)}


def judged(trace, name="fp32", **changes):
    reference = reference_of(GOLDEN, CANONICAL)
    observed = [replace(layer, **changes.get(layer.id, {})) for layer in observe_all(trace, GOLDEN, reference, name)]
    observed = [layer for layer in observed if layer.id not in {n for other in observed for n in other.covers}]
    found = judge_layers(profile(name), reference, observed, (), 1, {})
    return {layer.id: layer for layer in found.layers}


def broken(base, name, times):
    at = [node.id for node in base].index(name)
    return [off(node, times * BOUND[node.id]) if index >= at else node for index, node in enumerate(base)]


@pytest.mark.parametrize(("base", "whose"), [(GOLDEN, "the golden's"), (CANONICAL, "canonical's")])
def test_a_layer_fed_a_references_bits_introduces_its_error(base, whose):
    layers = judged(broken(base, "c", 50))
    assert f"its inputs have {whose} bits: it introduces this itself" in layers["c"].reason
    assert layers["c"].alone.metrics == layers["c"].metrics
    assert not layers["c"].alone.ran
    assert layers["y"].alone is None, "its input is nobody's, so nothing is known of it alone"


def test_one_input_of_its_own_leaves_it_open():
    trace = [off(node, 0.3 * BOUND["a"]) if node.id == "a" else node for node in broken(CANONICAL, "c", 50)]
    assert judged(trace)["c"].alone is None


def test_inputs_from_two_references_leave_it_open():
    trace = [GOLDEN[0], CANONICAL[1], *broken(CANONICAL, "c", 50)[2:]]
    assert judged(trace)["c"].alone is None


def test_an_error_that_canonicals_own_distance_explains_is_not_blamed():
    close = [off(node, 0.99 * BOUND[node.id]) for node in GOLDEN]
    reference = reference_of(GOLDEN, close)
    trace = [*close[:2], off(GOLDEN[2], 1.5 * BOUND["c"]), close[3]]
    found = {
        layer.id: layer
        for layer in judge_layers(FP32, reference, observe_all(trace, GOLDEN, reference), (), 1, {}).layers
    }
    assert found["c"].status == "fail"
    assert found["c"].alone is None


def test_a_tensor_fused_into_the_layer_is_read_through_and_one_fused_elsewhere_is_not():
    trace = broken(CANONICAL, "c", 50)
    own = judged(trace, c={"covers": ("b",)})
    assert own["b"].status == "not_observable"
    assert not own["c"].alone.ran
    other = judged(trace, y={"covers": ("b",)})
    assert other["c"].alone is None


def test_bits_decide_from_canonicals_bits_only():
    assert judged(broken(CANONICAL, "c", 50), "bitexact")["c"].alone.on == "canonical"
    ours = [*CANONICAL[:3], GOLDEN[3]]
    assert judged(ours, "bitexact")["y"].alone.on == "canonical"
    assert judged(broken(GOLDEN, "c", 50), "bitexact")["c"].alone is None


def test_non_finite_values_are_its_own_where_its_inputs_are_sound():
    trace = [replace(node, value=node.value * np.float32(np.nan)) if node.id in "cy" else node for node in CANONICAL]
    layers = judged(trace)
    assert not layers["c"].alone.ran
    assert "it introduces this itself" in layers["c"].reason


def test_where_looking_changes_the_result_what_was_read_proves_nothing():
    changed = {"instrumented_outputs": {"y": "other bits"}, "canonical": CANONICAL}
    trace = [*CANONICAL[:2], off(GOLDEN[2], 50 * BOUND["c"]), CANONICAL[3]]
    assert judge_case(evidence_of(trace, GOLDEN, **changed)).status == "pass"


def test_a_layer_that_was_not_measured_says_what_it_lies_behind():
    trace = broken(CANONICAL, "b", 50)
    layers = judged(trace, c={"stats": None})
    assert (layers["c"].status, layers["c"].behind) == ("not_compared", "b")
    assert layers["c"].reason == "behind `b`: it has other bits too, and was not measured"
    assert layers["y"].status == "fail"
    assert not layers["y"].introduced


def test_layers_that_were_not_measured_are_counted_apart_from_those_that_inherit():
    evidence = evidence_of(broken(CANONICAL, "a", 50), GOLDEN, canonical=CANONICAL)
    bare = tuple(replace(layer, stats=None) if layer.id in "bc" else layer for layer in evidence.observed)
    verdict = judge_case(replace(evidence, observed=bare))
    assert verdict.status == "fail"
    assert "; 1 later layer inherits it, 2 more behind it have other bits and no numbers" in verdict.reason
    assert verdict.coverage.not_compared == 2


@given(st.sampled_from("abcy"), st.floats(3.0, 1e6), st.sampled_from([GOLDEN, CANONICAL]))
def test_the_one_bad_layer_is_always_proved_and_nothing_else_is_blamed(name, times, base):
    layers = judged(broken(base, name, times))
    assert [layer.id for layer in layers.values() if layer.introduced] == [name]
    assert not layers[name].alone.ran
