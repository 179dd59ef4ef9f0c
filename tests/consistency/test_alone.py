"""Introduced against inherited: layers alone on the golden's inputs say who is to blame."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.alone import ancestors, culprits, judge_alone, wanted
from consistency.judge_layers import judge_layers
from consistency.localise import Frontier
from consistency.records import AloneVerdict, NonFinite
from consistency.thresholds import absolute_bound, profile
from consistency.verdict import judge_case
from tests.consistency.builders import Node, chain, evidence_of, observe, reference_of

FP32 = profile("fp32")


def noisy(node: Node, by: float) -> Node:
    return replace(node, value=(node.value + by).astype(node.value.dtype))


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=64).astype(np.float32)


GOLDEN = chain(*(values(seed) for seed in range(5)))
BOUND = {layer.id: absolute_bound(FP32, layer) for layer in reference_of(GOLDEN)}


def alone(*errors: tuple[str, float], golden: list[Node] = GOLDEN):
    """Layers alone, off by this many times their bound."""
    by_id = {node.id: node for node in golden}
    return tuple(observe(noisy(by_id[name], times * BOUND[name]), by_id[name], BOUND[name]) for name, times in errors)


def trace(*times: float) -> list[Node]:
    """The golden, each layer off by this many times its bound."""
    return [noisy(node, factor * BOUND[node.id]) for node, factor in zip(GOLDEN, times, strict=True)]


def verdict_of(times, errors, **changes):
    return judge_case(evidence_of(trace(*times), GOLDEN, alone=alone(*errors), **changes))


def layers_of(verdict):
    return {layer.id: layer for layer in verdict.layers}


def test_a_layer_that_fails_alone_introduces_and_the_later_ones_only_inherit():
    verdict = verdict_of((0, 0, 5, 5, 5), (("l2", 5), ("l1", 0), ("l3", 0.1), ("l4", 0.2)))
    layers = layers_of(verdict)
    assert verdict.first_deviating == ("l2",)
    assert [name for name, layer in layers.items() if layer.introduced] == ["l2"]
    assert "alone on the golden's inputs it fails too" in layers["l2"].reason
    assert "it introduces this itself" in verdict.reason
    assert "; 2 later layers inherit it" in verdict.reason
    assert "it is within its bound (introduced" in layers["l3"].reason
    assert "it only inherits" in layers["l3"].reason
    assert layers["l3"].alone.metrics.max_abs == pytest.approx(0.1 * BOUND["l3"], rel=1e-2)


def test_an_error_of_its_own_behind_another_is_found():
    verdict = verdict_of((0, 5, 5, 9, 9), (("l1", 5), ("l2", 0), ("l3", 7), ("l4", 0)))
    layers = layers_of(verdict)
    assert [name for name, layer in layers.items() if layer.introduced] == ["l1", "l3"]
    assert "it introduces this itself, besides what it inherits" in layers["l3"].reason
    assert verdict.first_deviating == ("l1",)
    assert "errors of their own, behind it: Conv `l3`" in verdict.reason
    assert "; 2 later layers inherit it" in verdict.reason


def test_an_error_that_builds_up_blames_no_single_layer():
    verdict = verdict_of((0.4, 0.7, 1.2, 1.2, 1.2), (("l2", 0.5), ("l1", 0.3), ("l0", 0.4)))
    layers = layers_of(verdict)
    assert verdict.status == "fail"
    assert verdict.first_deviating == ("l2",)
    assert not layers["l2"].introduced
    words = layers["l2"].reason
    assert "it only inherits, and no layer before it is beyond its bound: the error builds up" in words
    assert "of their bounds alone use `l2` 50 %, `l0` 40 %, `l1` 30 %" in words


def test_without_evidence_the_words_stay_as_they_were():
    verdict = judge_case(evidence_of(trace(0, 0, 5, 5, 5), GOLDEN))
    assert [layer.introduced for layer in verdict.layers] == [False, False, True, False, False]
    assert "alone" not in verdict.reason + "".join(layer.reason for layer in verdict.layers)


def exactly(name: str, by: float):
    """A layer alone on canonical's inputs (here: the golden's), of which only the digest came back."""
    node = next(node for node in GOLDEN if node.id == name)
    return replace(observe(noisy(node, by), node, 0.0), stats=None)


def test_a_bit_exact_profile_judges_what_ran_alone_by_its_bits():
    verdict = judge_case(
        evidence_of(trace(0, 0, 5, 5, 5), GOLDEN, name="bitexact", alone=(exactly("l3", 0.0), exactly("l4", 1.0)))
    )
    assert [layer.introduced for layer in verdict.layers] == [False, False, True, False, True]
    assert "its inputs have canonical's bits: it introduces this itself" in verdict.reason
    assert "alone on canonical's inputs it has canonical's bits: it only inherits" in layers_of(verdict)["l3"].reason
    assert "alone on canonical's inputs it fails too: it introduces this itself" in layers_of(verdict)["l4"].reason


def test_a_layer_the_model_lacks_is_no_evidence():
    strange = replace(alone(("l2", 5))[0], id="elsewhere")
    assert judge_alone(FP32, reference_of(GOLDEN), (strange,)) == {}


def test_alone_decides_where_dumping_changes_the_result():
    changed = {"instrumented_outputs": {"l4": "other bits"}}
    times = (0, 0, 5, 0, 0)
    guilty = verdict_of(times, (("l2", 5),), **changed)
    assert guilty.status == "fail"
    assert any("1 layers were judged alone on the golden's inputs" in remark for remark in guilty.remarks)
    acquitted = verdict_of(times, (("l2", 0.1),), **changed)
    assert acquitted.status == "pass"
    assert "alone on the golden's inputs 1 of them are within their bounds" in acquitted.reason


def test_a_few_at_a_time_decides_where_dumping_all_changes_the_result():
    changed = {"instrumented_outputs": {"l4": "other bits"}}
    seen = verdict_of((0, 0, 5, 5, 0), (), direct=frozenset({"l2"}), **changed)
    layers = layers_of(seen)
    assert seen.status == "fail"
    assert "indirect" not in layers["l2"].reason
    assert "(indirect: dumping the layers changes the result)" in layers["l3"].reason
    assert any("dumped a few at a time, 1 of 2 layers beyond bounds leave the result" in text for text in seen.remarks)
    tried = verdict_of((0, 0, 5, 5, 0), (), direct=frozenset(), **changed)
    assert tried.status == "pass"


def test_what_is_worth_running_alone_comes_in_order():
    case = evidence_of(trace(0, 0, 5, 5, 0), GOLDEN)
    judged = judge_layers(FP32, case.reference, case.observed, case.outputs, 1, {})
    assert wanted(case.reference, judged.layers, ()) == ("l2", "l1", "l3")
    healthy = evidence_of(trace(0, 0, 0, 0, 0), GOLDEN)
    judged = judge_layers(FP32, healthy.reference, healthy.observed, healthy.outputs, 1, {})
    assert wanted(healthy.reference, judged.layers, judged.layers[-1:]) == ()


STATUS = st.sampled_from(["pass", "fail", "not_compared"])


@given(st.dictionaries(st.sampled_from([node.id for node in GOLDEN]), STATUS), st.sets(st.sampled_from(["l1", "l3"])))
def test_blame_is_proved_or_not_disproved(evidence, first):
    order = reference_of(GOLDEN)
    own = {name: AloneVerdict(status, None, NonFinite(), "", None, None, "") for name, status in evidence.items()}
    blamed = culprits(order, Frontier(tuple(sorted(first)), ()), own)
    assert {name for name, status in evidence.items() if status == "fail"} <= set(blamed)
    assert not {name for name, status in evidence.items() if status == "pass"} & set(blamed)
    assert {name for name in first if evidence.get(name, "not_compared") == "not_compared"} <= set(blamed)
    assert list(blamed) == sorted(blamed)


def test_ancestors_follow_the_graph():
    inputs = {"a": ("x",), "b": ("a",), "c": ("x",), "d": ("b", "c")}
    assert ancestors("d", inputs) == {"a", "b", "c"}
    assert ancestors("a", inputs) == set()
