from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.pairing import across_quantisation, describe_mismatch, pair, reused_buffers
from consistency.records import ObservedLayer, ReferenceLayer, Scale

SCALE = Scale(1.0, 1.0, 1.0)


def ref(name, digest="g", shape=(4,), inputs=()):
    return ReferenceLayer(name, "Conv", "float32", shape, inputs, digest, SCALE)


def obs(name, digest="d", shape=(4,), covers=()):
    return ObservedLayer(name, "Conv", "float32", shape, digest, covers=covers)


def test_pairs_by_id_whatever_the_order():
    pairing = pair([ref("a"), ref("b")], [obs("b"), obs("a")])
    assert {name: layer.id for name, layer in pairing.pairs.items()} == {"a": "a", "b": "b"}
    assert pairing.missing == pairing.extra == ()


def test_three_expected_against_one_leaves_two_missing():
    pairing = pair([ref("a"), ref("b"), ref("c")], [obs("b")])
    assert pairing.missing == ("a", "c")


def test_covered_layers_are_not_observable_and_not_missing():
    pairing = pair([ref("conv"), ref("bn"), ref("relu")], [obs("relu", covers=("conv", "bn"))])
    assert pairing.covered == {"conv": "relu", "bn": "relu"}
    assert pairing.missing == ()


def test_a_layer_both_covered_and_reported_is_reported():
    pairing = pair([ref("conv"), ref("relu")], [obs("conv"), obs("relu", covers=("conv",))])
    assert pairing.covered == {}
    assert "`relu` says it covers `conv`, which is reported itself" in pairing.remarks[0]


def test_covering_what_does_not_exist_is_remarked():
    assert "`a` covers `ghost`" in pair([ref("a")], [obs("a", covers=("ghost",))]).remarks[0]


def test_extra_layers_are_listed_and_a_layer_reported_twice_is_not_paired():
    pairing = pair([ref("a")], [obs("a"), obs("a"), obs("z")])
    assert (pairing.extra, pairing.ambiguous, dict(pairing.pairs)) == (("z",), ("a",), {})


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        ((3, 4), (0, 4), "12 elements instead of 0"),  # E7
        ((1,), (), "shape 1 where the golden has scalar"),  # E7: rank counts
        ((1, 3, 4, 2), (1, 2, 3, 4), "looks like NHWC"),  # A10
        ((4, 3), (3, 4), "the axes look permuted"),
        ((12,), (3, 4), "another rank or order"),
    ],
)
def test_unlike_shapes_are_named(got, want, words):
    assert words in describe_mismatch(ref("a", shape=want), obs("a", shape=got))


def test_like_shapes_are_no_mismatch():
    assert describe_mismatch(ref("a", shape=(0, 4)), obs("a", shape=(0, 4))) is None


def test_the_bytes_of_a_later_healthy_layer_are_a_reused_buffer():  # A17
    reference = [ref("conv1", "g1"), ref("conv7", "g7")]
    observed = {"conv1": obs("conv1", "g7"), "conv7": obs("conv7", "g7")}
    assert reused_buffers(reference, observed, frozenset({"conv1"})) == {"conv1": "conv7"}


def test_an_operator_that_does_nothing_is_not_excused():
    reference = [ref("conv", "g1"), ref("relu", "g2")]
    observed = {"conv": obs("conv", "g1"), "relu": obs("relu", "g1")}
    assert reused_buffers(reference, observed, frozenset({"relu"})) == {}


def test_bytes_of_a_later_failing_layer_excuse_nothing():
    reference = [ref("a", "g1"), ref("b", "g2")]
    observed = {"a": obs("a", "zeros"), "b": obs("b", "zeros")}
    assert reused_buffers(reference, observed, frozenset({"a", "b"})) == {}


NAMES = st.sampled_from("abcdefgh")


@given(
    st.sets(NAMES, min_size=1),
    st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3)), max_size=8),
    st.randoms(use_true_random=False),
)
def test_pairing_does_not_depend_on_the_order_of_what_was_observed(expected, reported, random):
    reference = [ref(name) for name in sorted(expected)]
    observed = [obs(name, covers=tuple(covers)) for name, covers in reported]
    shuffled = observed.copy()
    random.shuffle(shuffled)
    there, back = pair(reference, observed), pair(reference, shuffled)
    assert replace(there, remarks=()) == replace(back, remarks=())
    assert set(there.remarks) == set(back.remarks)
    accounted = set(there.pairs) | set(there.covered) | set(there.missing) | set(there.ambiguous)
    assert accounted == expected
    assert not set(there.missing) & (set(there.pairs) | set(there.covered))


def quantised(*layers: tuple[str, str, str], dtype: str = "float32") -> tuple[ReferenceLayer, ...]:
    """Layers as (id, operator, what it reads); codes are uint8."""
    return tuple(
        replace(ref(name, inputs=(reads, "scale")), op=op, dtype="uint8" if op.startswith("Quant") else dtype)
        for name, op, reads in layers
    )


def test_a_layer_read_through_codes_is_what_the_codes_give_back():
    """By what reads what, whatever the names; a second reader of the same codes changes nothing."""
    fp32 = quantised(("conv", "Conv", "x"), ("relu", "Relu", "conv"), ("y", "MatMul", "relu"))
    int8 = quantised(
        ("x_codes", "QuantizeLinear", "x"),
        ("x_back", "DequantizeLinear", "x_codes"),
        ("conv", "Conv", "x_back"),
        ("relu", "Relu", "conv"),
        ("a", "QuantizeLinear", "relu"),
        ("b", "DequantizeLinear", "a"),
        ("b2", "DequantizeLinear", "a"),
        ("y", "MatMul", "b"),
    )
    assert across_quantisation(fp32, int8) == {"conv": "conv", "relu": "b", "y": "y"}


def test_a_layer_that_is_there_as_codes_or_in_another_shape_or_not_at_all_has_no_pair():
    fp32 = quantised(("conv", "Conv", "x"), ("wide", "Concat", "conv"), ("gone", "BatchNormalization", "wide"))
    codes = replace(ref("conv", inputs=("x",)), op="QLinearConv", dtype="uint8")
    assert across_quantisation(fp32, (codes, ref("wide", shape=(2, 2)))) == {}


def test_a_model_stands_for_itself():
    fp32 = quantised(("conv", "Conv", "x"), ("y", "MatMul", "conv"))
    assert across_quantisation(fp32, fp32) == {"conv": "conv", "y": "y"}
