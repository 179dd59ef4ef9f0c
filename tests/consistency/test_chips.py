from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.chips import bit_identity, compare_chips, compare_fleet, of_unlike_precision
from consistency.metrics import stats_from_arrays
from consistency.records import Floor
from consistency.thresholds import profile
from tests.consistency.builders import chain, observe_all, reference_of

GOLDEN = chain(*(np.linspace(1, 2, 50, dtype=np.float32) * scale for scale in (1, 2, 3)))
REFERENCE = reference_of(GOLDEN)
BOUND = 5e-5 * 2 * 3  # of the last layer


def device(*offsets, golden=GOLDEN, reference=REFERENCE, name="fp32"):
    trace = [
        replace(n, value=n.value + np.asarray(extra, n.value.dtype)) for n, extra in zip(golden, offsets, strict=True)
    ]
    return observe_all(trace, golden, reference, name)


def compare(a, b, name="fp32", reference=REFERENCE):
    return compare_chips(a, b, reference, profile(name))


def test_equal_digests_are_identical_without_any_number():
    same = device(0.5, 0.5, 0.5)
    verdict = compare(same, tuple(replace(layer, stats=None) for layer in same))
    assert (verdict.status, verdict.bit_identical, verdict.layers_equal) == ("pass", True, 3)
    assert verdict.reason == "all 3 layers are bit-identical"


def test_two_small_distances_to_the_golden_settle_a_pair():
    verdict = compare(device(0, 0, BOUND * 0.4), device(0, 0, -BOUND * 0.4))
    assert (verdict.status, verdict.bit_identical, verdict.first_split) == ("pass", False, "l2")
    assert (
        verdict.reason
        == "2 of 3 layers are bit-identical, the first that is not is `l2`; every difference is within its bound"
    )
    assert verdict.worst.measured == pytest.approx(BOUND * 0.8, rel=1e-2)


def test_one_large_distance_settles_a_failure_at_its_first_layer():
    verdict = compare(device(0, 0.5, 0.5), device(0, 1e-6, 0))
    assert (verdict.status, verdict.first_deviating) == ("fail", ("l1",))
    assert verdict.reason.startswith("`l1` differs: at least 0.5 apart (bound 0.0002)")


def test_what_statistics_cannot_settle_is_listed():
    verdict = compare(device(0, 0, 0.5), device(0, 0, -0.5))
    assert (verdict.status, verdict.needs_tensors) == ("inconclusive_needs_tensors", ("l2",))


def test_unknown_statistics_need_tensors():
    unknown = tuple(replace(layer, stats=None) for layer in device(0, 0, 1e-6))
    assert compare(unknown, device(0, 0, 0)).needs_tensors == ("l2",)


def test_non_finite_on_one_side_fails():
    verdict = compare(device(0, 0, np.nan), device(0, 0, 0))
    assert verdict.status == "fail"
    assert "50 NaN on one side, no non-finite value on the other" in verdict.reason


def test_no_common_layer_is_not_compared():
    assert compare(device(0, 0, 0)[:1], device(0, 0, 0)[1:]).status == "not_compared"


def test_bitexact_tolerates_no_other_digest():
    assert compare(device(0, 0, 1e-6), device(0, 0, 0), "bitexact").status == "fail"


def test_integers_are_settled_by_how_many_elements_can_differ():
    golden = chain(np.zeros(1000, np.int8))
    reference = reference_of(golden)

    def wrong(count, lsb=1):
        value = np.zeros(1000, np.int8)
        value[:count] = lsb
        return device(value, golden=golden, reference=reference, name="int8")

    assert compare(wrong(0), wrong(9), "int8", reference).status == "pass"
    assert compare(wrong(0), wrong(11), "int8", reference).status == "fail"
    assert compare(wrong(5, 1), wrong(5, -1), "int8", reference).status == "inconclusive_needs_tensors"


OFFSETS = st.lists(st.sampled_from([0.0, 1e-6, -1e-5, 1e-4, 0.5, float("nan")]), min_size=3, max_size=3)


@given(OFFSETS, OFFSETS)
def test_a_pair_is_symmetric(a, b):
    there, back = compare(device(*a), device(*b)), compare(device(*b), device(*a))
    assert (there.status, there.layers_equal, there.first_deviating, there.needs_tensors, there.worst) == (
        back.status,
        back.layers_equal,
        back.first_deviating,
        back.needs_tensors,
        back.worst,
    )


@given(
    st.lists(st.floats(-3e-4, 3e-4), min_size=50, max_size=50),
    st.lists(st.floats(-3e-4, 3e-4), min_size=50, max_size=50),
)
def test_what_the_triangle_settles_is_true(a, b):
    golden = GOLDEN[:1]
    reference = reference_of(golden)
    left, right = golden[0].value + np.float32(a), golden[0].value + np.float32(b)
    apart = float(np.abs(left.astype(np.float64) - right.astype(np.float64)).max())
    verdict = compare(
        device(np.float32(a), golden=golden, reference=reference),
        device(np.float32(b), golden=golden, reference=reference),
        reference=reference,
    )
    bound = profile("fp32").bound("Conv", "float32", reference[0].scale)
    if verdict.status == "pass":
        assert apart <= bound * (1 + 1e-9)
    if verdict.status == "fail":
        assert apart > bound * (1 - 1e-9)


def test_groups_of_equal_bits_and_the_first_split():
    layers = {
        "x1": {"l0": "a", "l1": "b", "l2": "c"},
        "x3": {"l0": "a", "l1": "b", "l2": "c"},
        "a53": {"l0": "a", "l1": "z", "l2": "y"},
    }
    identity = bit_identity(layers, {"x1": "sse2", "x3": "avx2", "a53": "neon"}, REFERENCE)
    assert [group.devices for group in identity.groups] == [("x1", "x3"), ("a53",)]
    assert (identity.identical_layers, identity.total_layers, identity.first_split_layer) == (1, 3, "l1")


def test_the_same_binary_and_dispatch_counts_once():
    layers = {name: {"l0": "a"} for name in ("d1", "d2", "d3")}
    identity = bit_identity(layers, {"d1": "neon", "d2": "neon", "d3": "sve"}, REFERENCE)
    assert identity.groups[0].dispatches == ("neon", "sve")
    assert identity.groups[0].layers == 1


def test_devices_that_reported_nothing_are_no_group_and_nothing_in_common_is_no_identity():
    assert bit_identity({"a": {}, "b": {"l0": "a"}}, {}, REFERENCE).groups[0].devices == ("b",)
    apart = bit_identity({"a": {"l1": "a"}, "b": {"l0": "a"}}, {}, REFERENCE)
    assert (apart.groups, apart.identical_layers) == ((), 0)
    assert bit_identity({}, {}, REFERENCE).groups == ()


def test_a_fleet_is_compared_pair_by_pair_in_its_own_order() -> None:
    chips = {"b": device(0, 0, 0), "a": device(0, 1e-4, 0), "c": device(0, 0, 9)}
    fleet = compare_fleet(chips, REFERENCE, profile("fp32"))
    assert list(fleet) == [("b", "a"), ("b", "c"), ("a", "c")]
    for (one, other), verdict in fleet.items():
        assert verdict == compare_chips(chips[one], chips[other], REFERENCE, profile("fp32"))
    assert compare_fleet({"a": chips["a"]}, REFERENCE, profile("fp32")) == {}


def exact(noise):
    """Noise that was measured element by element."""
    return {chip: {layer: Floor(width, width) for layer, width in own.items()} for chip, own in noise.items()}


def fleet(a, b, noise, reference=REFERENCE):
    return compare_fleet({"a": a, "b": b}, reference, profile("fp32"), exact(noise))["a", "b"]


def test_a_pair_is_never_judged_finer_than_a_chips_own_noise():  # A12
    apart = device(0, 0, 4 * BOUND), device(0, 0, -0.1 * BOUND)
    assert fleet(*apart, {}).status == "fail"
    verdict = fleet(*apart, {"a": {"l2": 5 * BOUND}})
    assert (verdict.status, verdict.first_deviating) == ("pass", ())
    assert verdict.reason.endswith("every difference is within its bound or own noise")
    assert "within own noise" in next(layer.reason for layer in verdict.layers if layer.id == "l2")
    assert fleet(*apart, {"a": {"l2": 0.5 * BOUND}}).status == "fail", "noise excuses no more than itself"
    assert fleet(*apart, {"a": {"l2": 2.1 * BOUND}, "b": {"l2": 2.1 * BOUND}}).status == "pass"


def test_noise_that_was_not_measured_leaves_a_layer_open():
    verdict = fleet(device(0, 1, 0), device(0, 0, 0), {"a": {"l2": 1e-9}})
    assert (verdict.status, verdict.needs_tensors) == ("inconclusive_needs_tensors", ("l1",))
    told = next(layer.reason for layer in verdict.layers if layer.id == "l1")
    assert "one chip does not repeat itself, and how far it varies here is not known" in told


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10), st.booleans())
def test_noise_only_ever_widens(a, b, noise, one):
    pair = device(0, 0, a * BOUND), device(0, 0, -b * BOUND)
    plain, wide = fleet(*pair, {}), fleet(*pair, {"a" if one else "b": {"l2": noise * BOUND}})
    order = ["pass", "inconclusive_needs_tensors", "fail"]
    assert order.index(wide.status) <= order.index(plain.status)


def between(a, b, least, most):
    """A pair of which ``a`` is known to vary by something between ``least`` and ``most``."""
    chips, noise = {"a": device(0, 0, a), "b": device(0, 0, b)}, {"a": {"l2": Floor(least, most)}}
    return compare_fleet(chips, REFERENCE, profile("fp32"), noise)["a", "b"]


def test_noise_known_by_statistics_excuses_what_it_proves_and_leaves_open_what_it_allows():
    assert between(4 * BOUND, -0.1 * BOUND, 5 * BOUND, 9 * BOUND).status == "pass"
    verdict = between(4 * BOUND, -0.1 * BOUND, 0.1 * BOUND, 9 * BOUND)
    assert verdict.status == "inconclusive_needs_tensors"
    assert "own noise is known to lie between 3e-05 and 0.0027" in verdict.layers[-1].reason
    assert between(4 * BOUND, -0.1 * BOUND, 0.1 * BOUND, 2 * BOUND).status == "fail"


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10), st.floats(0, 10))
def test_no_floor_lets_a_difference_pass_that_is_beyond_bound_and_floor(a, b, least, more):
    verdict = between(a * BOUND, -b * BOUND, least * BOUND, (least + more) * BOUND)
    values = GOLDEN[-1].value
    apart = float(np.abs((values + np.float32(a * BOUND)) - (values + np.float32(-b * BOUND))).max())
    assert verdict.status != "pass" or apart <= 1.001 * BOUND * max(1, least)
    assert verdict.status != "fail" or apart > 0.999 * BOUND * max(1, least + more)


@given(st.integers(1, 2), st.integers(0, 10))
def test_noise_excuses_how_many_codes_differ_only_where_it_explains_each_of_them(off, floor):
    golden = chain(np.arange(-50, 50, dtype=np.int8), op="QLinearConv")
    reference = reference_of(golden)
    moved = [replace(golden[0], value=golden[0].value + np.int8(off))]
    sides = {"a": observe_all(moved, golden, reference, "int8"), "b": observe_all(golden, golden, reference, "int8")}
    noise = {"a": {"l0": Floor(floor, floor)}}
    verdict = compare_fleet(sides, reference, profile("int8"), noise)["a", "b"]
    assert (verdict.status == "pass") == (off <= floor)


def by_tensors(a, b, name="l2", **changes):
    """A pair whose layer ``name`` may be measured by its tensors."""
    given = {"a": a, "b": b}
    trace = {layer.id: layer.value for layer in GOLDEN}

    def apart(one, other, layer):
        if layer != name:
            return None
        return stats_from_arrays(trace[layer] + np.float32(given[other]), trace[layer] + np.float32(given[one]), np.inf)

    chips = {side: device(0, 0, offset) for side, offset in given.items()}
    noise = exact(changes.get("noise", {}))
    return compare_fleet(chips, REFERENCE, profile("fp32"), noise, apart)["a", "b"]


def test_what_statistics_leave_open_is_settled_by_tensors_that_are_at_hand():
    assert compare(device(0, 0, BOUND * 0.9), device(0, 0, BOUND * 0.3)).status == "inconclusive_needs_tensors"
    verdict = by_tensors(BOUND * 0.9, BOUND * 0.3)
    assert (verdict.status, verdict.needs_tensors) == ("pass", ())
    assert "apart by their tensors" in verdict.layers[-1].reason
    verdict = by_tensors(BOUND * 0.9, -BOUND * 0.9)
    assert (verdict.status, verdict.first_deviating) == ("fail", ("l2",))
    assert verdict.worst.measured == pytest.approx(1.8 * BOUND, rel=1e-2)
    assert by_tensors(BOUND * 0.9, -BOUND * 0.9, noise={"a": {"l2": 2 * BOUND}}).status == "pass"


def test_a_layer_nobody_can_settle_says_why():
    verdict = by_tensors(BOUND * 0.9, BOUND * 0.3, name="l1")
    assert verdict.status == "inconclusive_needs_tensors"
    assert "statistics against the golden cannot settle `l2` (at most 0.00036 apart, bound 0.0003)" in verdict.reason
    assert "only final outputs are" in verdict.reason


def test_two_precisions_are_not_one_configuration():  # A15
    verdict = of_unlike_precision(compare(device(0, 1, 1), device(0, 0, 0)), "fp32", "fp16")
    assert (verdict.status, verdict.first_deviating, verdict.worst) == ("not_compared", (), None)
    assert verdict.reason == (
        "one ran in fp32, the other in fp16: not the same configuration; 1 of 3 layers are bit-identical"
    )
