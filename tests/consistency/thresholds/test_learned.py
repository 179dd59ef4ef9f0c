import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.thresholds import profile
from consistency.thresholds.learned import ENOUGH, MARGIN, Observation, held_out, learn, learned_profile

BASE = profile("fp32")


def runs(op, *, models=3, per_model=20, layers=5, middle=1e-7, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Observation(f"m{model}", f"m{model}/{run}", op, float(middle * np.exp(spread * rng.standard_normal())))
        for model in range(models)
        for run in range(per_model)
        for _ in range(layers)
    ]


def test_a_quiet_operator_gets_a_tighter_bound_and_a_noisier_one_a_wider_one():
    floors = {floor.op: floor for floor in learn(runs("Relu") + runs("Conv", middle=1e-6), 0.01, BASE)}
    assert BASE.floats.rtol > floors["Conv"].rtol > floors["Relu"].rtol
    for floor in floors.values():
        assert floor.rtol >= MARGIN * floor.largest * (1 - 1e-9)
        assert (floor.observations, floor.models) == (300, 3)


def test_a_rarer_false_alarm_costs_a_wider_bound():
    seen = runs("Conv", middle=1e-8, spread=1.0)
    often, rarely = (learn(seen, rate, BASE)[0].rtol for rate in (0.1, 1e-12))
    assert often < rarely


def test_little_evidence_leaves_the_base_profile_alone():
    few = runs("Conv")[: ENOUGH - 1]
    silent = [Observation("m", "m/0", "Conv", 0.0)] * 100
    assert learn(few + silent, 0.01, BASE) == ()
    assert learned_profile("x", (), BASE).by_op == BASE.by_op


def test_no_bound_gets_wider_than_that_of_the_base_profile():
    (floor,) = learn(runs("Conv", middle=1e-3), 0.01, BASE)
    assert floor.rtol == BASE.floats.rtol


def test_the_stated_rate_holds_on_runs_that_were_not_learned_from():
    floors = learn(runs("Conv", per_model=200, seed=1), 0.05, BASE)
    fresh = runs("Conv", per_model=700, seed=2)
    blamed = {entry.run for entry in fresh if entry.error > floors[0].rtol}
    assert len(blamed) <= 0.05 * 2100


def test_a_model_unlike_the_others_is_told():
    odd = [Observation("odd", f"odd/{run}", "Conv", 4e-5) for run in range(5)]
    outcomes = {entry.model: entry for entry in held_out(runs("Conv") + odd, 0.01, BASE)}
    assert (outcomes["odd"].runs, outcomes["odd"].false_alarms) == (5, 5)
    assert outcomes["m0"].false_alarms == 0


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="between 0 and 1"):
        learn([], rate, BASE)


@given(st.lists(st.floats(1e-9, 1e-5), min_size=ENOUGH, max_size=60))
def test_what_was_seen_passes(errors):
    seen = [Observation("m", f"m/{index}", "Conv", error) for index, error in enumerate(errors)]
    (floor,) = learn(seen, 0.01, BASE)
    assert max(errors) <= floor.rtol <= BASE.floats.rtol
    judged = learned_profile("x", (floor,), BASE)
    assert judged.by_op["Conv"].rtol == floor.rtol
    assert judged.by_op["Conv"].atol == BASE.floats.atol
    assert judged.floats == BASE.floats
