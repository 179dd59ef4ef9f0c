import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.metrics import scale_of, stats_from_arrays
from consistency.proportion import clopper_pearson
from consistency.records import Scale, Stats
from consistency.thresholds import PROFILE_NAMES, profile
from consistency.thresholds.fitting import LEAST_FAMILIES, Observation, blamed_runs, held_out, learn
from consistency.thresholds.learned import CARRIERS, LearnedRule, group_of, learned_profile
from consistency.thresholds.profile import IntegerRule
from consistency.thresholds.registry import adopt

BASE = profile("fp16")
ONE = Scale(rms=1.0, p999=1.0, max_abs=1.0)


def off_by(error, *, count=10_000, differing=None):
    """Statistics of a layer of ones whose worst element is off by ``error``."""
    changed = 1 if differing is None else round(differing * count)
    return Stats(
        count=count,
        differing=changed if error else 0,
        over_bound=0,
        max_abs=error,
        worst_index=0,
        worst_got=1 + error,
        worst_ref=1,
        sum_diff=error,
        sum_sq_diff=error * error,
        sum_sq_ref=count,
        sum_sq_got=count,
        dot=count,
        nonfinite_mismatch=0,
    )


def seen(family, error, *, op="Conv", run=0, layer="l", dtype="float32", backend="cpu", length=1, differing=None):
    stats = off_by(error, differing=differing)
    return Observation(family, family, f"{family}/{run}", layer, op, dtype, backend, length, stats, ONE)


def families(sizes, **more):
    return [seen(f"f{place}", size, **more) for place, size in enumerate(sizes)]


QUIET = [3.0e-3, 3.4e-3, 2.8e-3, 3.2e-3, 3.1e-3, 2.9e-3]


def rules(observations, rate=0.01, base=BASE):
    return {rule.op: rule for rule in learn(observations, rate, base).rules}


def test_a_quiet_operator_gets_a_bound_above_its_noise_and_below_the_base():
    found = rules(families(QUIET))["Conv"]
    assert max(QUIET) < found.rtol < BASE.floats.rtol
    assert (found.families, found.layers, found.capped, found.beyond) == (6, 6, False, 0)
    judged = learned_profile("x", (found,), BASE)
    assert judged.bound("Conv", "float32", ONE, 1) == pytest.approx(found.rtol)
    assert judged.bound("Gemm", "float32", ONE, 1) == pytest.approx(BASE.floats.rtol)


def test_repeats_of_the_same_models_teach_nothing_more():
    once, often = families(QUIET), [entry for run in range(50) for entry in families(QUIET, run=run)]
    assert rules(once)["Conv"].rtol == rules(often)["Conv"].rtol


def test_models_that_are_unlike_one_another_cost_a_wider_bound():
    spread = [2.1e-3, 3.4e-3, 2.2e-3, 2.5e-3, 2.0e-3, 3.1e-3]
    assert rules(families(spread))["Conv"].rtol > rules(families(QUIET))["Conv"].rtol


def test_a_rarer_false_alarm_costs_a_wider_bound():
    often, rarely = (learn(families(QUIET), rate, BASE).margin for rate in (0.2, 0.001))
    assert 1.0 <= often < rarely


@pytest.mark.parametrize("count", range(LEAST_FAMILIES))
def test_few_families_leave_the_base_alone(count):
    many_runs = [entry for run in range(40) for entry in families(QUIET[:count], run=run)]
    assert learn(many_runs, 0.01, BASE).rules == ()
    assert learn(many_runs, 0.01, BASE).margin is None


def test_no_bound_gets_wider_than_that_of_the_base_and_the_file_says_so():
    found = rules(families([1e-2, 2.5e-2, 2e-3, 1.4e-2, 2.9e-2]))["Conv"]
    assert (found.rtol, found.capped) == (BASE.floats.rtol, True)


@given(
    st.lists(st.floats(2.5e-3, 2.5e-2), min_size=LEAST_FAMILIES, max_size=9),
    st.floats(0.002, 0.45),
)
def test_a_bound_is_sharper_than_the_base_exactly_above_the_rate_that_the_rule_names(errors, rate):
    found = rules(families(errors), rate)["Conv"]
    fitted = learn(families(errors), rate, BASE).margin * max(errors)
    assert fitted <= found.fitted <= 1.11 * fitted  # rounded up to two digits
    assert found.fitted == found.rtol or (found.capped and found.fitted >= BASE.floats.rtol)
    if found.sharper_above is None:
        assert found.capped
    elif (
        not found.sharper_above * 0.999 <= rate <= found.sharper_above * 1.001
        and not 0.029 <= fitted <= BASE.floats.rtol
    ):
        assert found.capped == (rate < found.sharper_above)


def test_what_the_noise_would_allow_is_told_for_the_longest_sum():
    grown = [
        seen(f"f{place}", size * math.sqrt(length) / 4, layer=f"l{length}", length=length)
        for place, size in enumerate(QUIET)
        for length in (16, 36, 100, 1600)
    ]
    found = rules(grown, rate=0.01)["Conv"]
    assert (found.capped, found.longest) == (False, 1600)
    assert found.fitted == pytest.approx(found.rtol * 1600**found.growth, rel=0.11)
    assert found.rtol < BASE.floats.rtol < found.fitted


def test_what_the_base_fails_teaches_nothing_and_is_counted():
    broken = [seen("f0", 0.5, run=1)]
    assert rules(families(QUIET) + broken)["Conv"].rtol == rules(families(QUIET))["Conv"].rtol
    assert rules(families(QUIET) + broken)["Conv"].beyond == 1
    (first, *_) = held_out(families(QUIET) + broken, 0.01, BASE)
    assert (first.family, first.runs, first.blamed, first.by_base) == ("f0", 2, 1, 1)


def test_what_rounding_passes_is_no_noise():
    silent = families([BASE.floats.atol / 2] * 6) + families([0.0] * 6, op="Gemm")
    assert learn(silent, 0.01, BASE).rules == ()


def test_layers_that_hand_on_what_they_read_share_the_noise_of_all():
    loud = families([9e-3, 8e-3, 9e-3, 8.5e-3, 9e-3, 8e-3]) + families([1e-4] * 6, op="Relu", layer="r")
    found = rules(loud)
    assert "Relu" not in found
    judged = learned_profile("x", found.values(), BASE)
    for op in ("Relu", "Reshape", "Slice"):
        assert judged.bound(op, "float32", ONE) == pytest.approx(min(found["carried"].rtol, BASE.floats.rtol))
    assert found["carried"].rtol >= 9e-3
    assert {group_of(op) for op in CARRIERS} == {"carried"}


def test_the_growth_with_the_reduction_length_is_found():
    lengths = (16, 36, 100, 256)
    grown = [
        seen(f"f{place}", size * math.sqrt(length) / 4, layer=f"l{length}", length=length)
        for place, size in enumerate(QUIET)
        for length in lengths
    ]
    found = rules(grown, rate=0.2)["Conv"]
    assert found.growth == pytest.approx(0.5, abs=0.02)
    assert found.longest == 256
    judged = learned_profile("x", (found,), BASE)
    short, long, unknown, beyond = (judged.bound("Conv", "float32", ONE, length) for length in (16, 256, 0, 257))
    assert long == pytest.approx(4 * short, rel=0.1)
    assert unknown == long < beyond
    assert beyond == pytest.approx(BASE.floats.rtol)
    assert not blamed_runs(grown, judged)


def test_another_backend_or_type_keeps_the_base():
    judged = learned_profile("x", rules(families(QUIET)).values(), BASE)
    learned = judged.bound("Conv", "float32", ONE, 1)
    of = {
        (d, b): judged.bounds("Conv", d, ONE, 1, b).max_abs for d in ("float32", "float64") for b in ("cpu", "gpu", "")
    }
    base = pytest.approx(BASE.floats.rtol)
    assert of["float32", "cpu"] == of["float32", ""] == learned < BASE.floats.rtol
    assert [of["float32", "gpu"], of["float64", "cpu"], of["float64", ""]] == [base, base, base]


def test_an_unknown_backend_gets_the_widest_of_the_learned_bounds():
    both = families(QUIET) + families([1.5 * size for size in QUIET], backend="gpu")
    judged = learned_profile("x", learn(both, 0.2, BASE).rules, BASE)
    cpu, gpu, unknown = (judged.bounds("Conv", "float32", ONE, 1, name).max_abs for name in ("cpu", "gpu", ""))
    assert cpu < gpu == unknown


def test_integers_learn_the_share_that_differs_and_never_more_lsb():
    base = profile("int8")
    shares = [0.001, 0.0012, 0.0011, 0.001, 0.0013, 0.001]
    quantised = [
        seen(f"f{place}", 1.0, op="QuantizeLinear", dtype="uint8", differing=share)
        for place, share in enumerate(shares)
    ]
    found = {rule.op: rule for rule in learn(quantised, 0.1, base).rules}["QuantizeLinear"]
    assert found.rtol is None
    assert (found.integer.max_lsb, found.largest_lsb) == (1, 1)
    assert max(shares) < found.integer.max_differing < base.integers["uint8"].max_differing
    bounds = learned_profile("x", (found,), base).bounds("QuantizeLinear", "uint8", ONE, 1, "cpu")
    assert (bounds.max_abs, bounds.max_differing) == (1.0, found.integer.max_differing)
    assert learned_profile("x", (found,), base).bounds("QuantizeLinear", "int8", ONE).max_differing == 0.01


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_the_stated_rate_holds_on_families_that_were_not_learned_from(rate):
    """Families with a noise of their own, layers with more: the union over all layers of a new family is blamed."""
    rng = np.random.default_rng(17)
    blamed = trials = 0
    for _ in range(120):
        loudness = np.exp(0.4 * rng.standard_normal(9))
        made = [
            seen(f"f{family}", float(3e-3 * loud * np.exp(0.3 * rng.standard_normal())), layer=f"{layer}", op=op)
            for family, loud in enumerate(loudness)
            for op in ("Conv", "Gemm", "Add")
            for layer in range(4)
        ]
        teaching, fresh = ([entry for entry in made if (entry.family == "f8") == new] for new in (False, True))
        judged = learned_profile("x", learn(teaching, rate, BASE).rules, BASE)
        blamed, trials = blamed + bool(blamed_runs(fresh, judged)), trials + 1
    assert clopper_pearson(blamed, trials)[0] <= rate


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="between 0 and 1"):
        learn([], rate, BASE)


@given(st.lists(st.floats(1e-9, 0.1), min_size=LEAST_FAMILIES, max_size=9), st.sampled_from(["fp32", "fp16", "bf16"]))
def test_what_was_seen_and_passed_the_base_passes_and_nothing_gets_wider(errors, name):
    base = profile(name)
    made = families(errors) + families(errors[::-1], op="Relu", layer="r")
    judged = learned_profile("x", learn(made, 0.01, base).rules, base)
    assert blamed_runs(made, judged) == blamed_runs(made, base)
    for op in ("Conv", "Relu", "Gemm"):
        assert judged.bound(op, "float32", ONE, 1) <= base.bound(op, "float32", ONE, 1)


def test_real_arrays_are_judged_as_by_the_gate():
    ref = np.linspace(-1, 1, 500, dtype=np.float32)
    got = ref + np.float32(2e-3)
    rule = LearnedRule("Conv", "float32", "cpu", 1, 6, 6, 1e-3, 0, rtol=1e-3)
    judged = learned_profile("x", (rule,), BASE)
    entry = Observation(
        "f", "f", "f/0", "l", "Conv", "float32", "cpu", 1, stats_from_arrays(got, ref, math.inf), scale_of(ref)
    )
    assert blamed_runs([entry], judged) == {"f/0"}
    assert blamed_runs([entry], BASE) == set()


def test_a_learned_profile_is_known_by_its_name_and_no_other_may_take_it():
    rule = LearnedRule("Conv", "float32", "cpu", 1, 6, 6, 1e-3, 0, rtol=1e-3)
    name = adopt(learned_profile("learned:a@1", (rule,), BASE))
    assert profile(name).base == "fp16"
    assert adopt(learned_profile("learned:a@1", (rule,), BASE)) == name
    with pytest.raises(ValueError, match="another profile is called"):
        adopt(learned_profile("learned:a@1", (), BASE))
    with pytest.raises(ValueError, match="another profile is called"):
        adopt(learned_profile("fp32", (rule,), BASE))
    with pytest.raises(ValueError, match="unknown profile 'learned:b@1'"):
        profile("learned:b@1")
    assert name not in PROFILE_NAMES
    assert profile("fp32").base == "fp32"


def test_integer_rules_take_the_sharper_of_each():
    rule = LearnedRule("X", "int8", "cpu", 1, 6, 6, 1e-3, 0, integer=IntegerRule(3, 0.5))
    bounds = learned_profile("x", (rule,), profile("int8")).bounds("X", "int8", ONE)
    assert (bounds.max_abs, bounds.max_differing) == (1.0, 0.01)
