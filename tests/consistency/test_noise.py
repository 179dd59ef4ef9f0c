"""How far a device's runs of a layer are apart, from statistics against the golden and from tensors."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from consistency.noise import QUIET, chip_noise, floor_of, pair_floor
from consistency.records import Floor, LayerRepeats, LayerRuns
from tests.consistency.builders import chain, observe, reference_of

GOLDEN = chain(np.linspace(-1, 1, 8, dtype=np.float32))
(LAYER,) = reference_of(GOLDEN)
VALUES = arrays(np.float32, 8, elements=st.floats(-100, 100, width=32))


def runs_of(*values, width=None, measured=None):
    """The layer as runs with ``values`` give it; statistics of the first ``measured`` only."""
    shown = [observe(replace(GOLDEN[0], value=np.float32(value)), GOLDEN[0], 1e-4) for value in values]
    known = [layer if measured is None or i < measured else replace(layer, stats=None) for i, layer in enumerate(shown)]
    return LayerRuns(tuple(layer.digest for layer in shown), {layer.digest: layer for layer in known}, width=width)


@given(st.lists(VALUES, min_size=2, max_size=5))
def test_the_true_distance_lies_within_the_floor(runs):
    floor = floor_of(LAYER, runs_of(*runs))
    apart = max(float(np.abs(a.astype(np.float64) - b).max()) for a in runs for b in runs)
    if floor is None:
        assert len({run.tobytes() for run in runs}) < 2
    else:
        assert floor.least <= apart * (1 + 1e-9) + 1e-12
        assert apart <= floor.most * (1 + 1e-9) + 1e-12


def test_the_golden_s_own_bits_are_a_measured_run_too():
    value = GOLDEN[0].value
    floor = floor_of(LAYER, runs_of(value, value + np.float32(0.25)))
    assert floor == Floor(pytest.approx(0.25), pytest.approx(0.25))


def test_tensors_that_came_back_tell_exactly():
    value = GOLDEN[0].value
    assert floor_of(LAYER, runs_of(value + 1, value + 1.5, width=0.75)) == Floor(0.75, 0.75)


@pytest.mark.parametrize("measured", [0, 1])
def test_one_measured_run_tells_nothing(measured):
    value = GOLDEN[0].value
    assert floor_of(LAYER, runs_of(value + 1, value + 2, measured=measured)) is None


def test_values_that_are_no_number_have_no_distance():
    broken = GOLDEN[0].value.copy()
    broken[3] = np.nan
    assert floor_of(LAYER, runs_of(broken, GOLDEN[0].value + 1)) is None


def test_a_chip_that_repeats_itself_has_no_noise():
    assert chip_noise({}, LayerRepeats("same", 2), ["a", "b"]) == {}


def test_steady_layers_of_a_noisy_chip_are_quiet_and_unmeasured_ones_left_out():
    inner = LayerRepeats("varies", 5, ("b",), {"b": Floor(1.0, 2.0), "c": None})
    assert chip_noise({}, inner, "abc") == {"a": QUIET, "b": Floor(1.0, 2.0)}
    assert chip_noise({"c": 0.5, "b": 1.5}, inner, "abc") == {"a": QUIET, "b": Floor(1.5, 2.0), "c": Floor(0.5, 0.5)}
    once = LayerRepeats()
    assert chip_noise({"c": 0.5}, once, "abc") == {"c": Floor(0.5, 0.5)}, "layers that ran once are unknown"


def test_two_chips_may_differ_by_both_noises():
    noisy, steady = {"a": Floor(1.0, 2.0)}, {}
    assert pair_floor("a", (noisy, steady)) == Floor(1.0, 2.0)
    assert pair_floor("a", (noisy, noisy)) == Floor(2.0, 4.0)
    assert pair_floor("b", (noisy, steady)) is None
    assert pair_floor("b", (steady, steady)) == QUIET
