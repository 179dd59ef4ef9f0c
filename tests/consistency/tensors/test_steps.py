"""Steps of a decoder: in order of their numbers, constant over all of them, and nothing introduced behind the first."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.tensors import (
    Tensor,
    TensorVerdict,
    behind_first_step,
    compare_tensors,
    constant_over_steps,
    first_step,
    flagged,
    in_steps,
    series_of,
    step_of,
)
from consistency.thresholds import IntegerRule, Profile, profile

FP32 = profile("fp32")


def tensor(values, name="token"):
    array = np.asarray(values)
    return Tensor(name, array.dtype.name, array.shape, array)


def series(refs, gots):
    return [lambda r=r, g=g: (tensor(r), tensor(g)) for r, g in zip(refs, gots, strict=True)]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("step-0/conv", (0, "conv")),
        ("decode/Step_07/attn/out", (7, "decode/attn/out")),
        ("iter12", (12, "")),
        ("iteration-3/x", (3, "x")),
        ("conv", None),
        ("stepwise/x", None),
        ("footstep-3/x", None),
        ("step-3b/x", None),
    ],
)
def test_a_step_is_a_whole_part_of_the_path(name, found):
    assert step_of(name) == found


def test_steps_are_numbers_and_not_text():
    names = ["step-10/a", "step-2/a", "mask", "step-2/b", "step-0/a"]
    assert in_steps(names) == ["mask", "step-0/a", "step-2/a", "step-2/b", "step-10/a"]
    assert series_of(names) == {"a": ["step-0/a", "step-2/a", "step-10/a"], "b": ["step-2/b"]}
    assert in_steps(["b", "a"]) == ["b", "a"], "without steps the order is the capture's"


def test_twenty_equal_tokens_are_constant_where_the_reference_varies():  # A24
    tokens = np.arange(20) * 7 % 11
    steps = series([np.int64([token]) for token in tokens], [np.int64([0])] * 20)
    assert constant_over_steps(steps, FP32) == "constant output: 0 in all 20 steps where the reference varies"


def test_it_is_flagged_before_any_tolerance():  # A24
    wide = Profile("wide", FP32.floats, other_integers=IntegerRule(10, 1.0))
    within = compare_tensors(tensor(np.int64([3])), tensor(np.int64([0])), wide)
    assert within.status == "pass"
    told = flagged(within, "constant output: 0 in all 20 steps where the reference varies")
    assert (told.status, told.metric, told.metrics["decided_by"]) == ("fail", "constant", "constant")
    assert told.reason.startswith("constant output: 0 in all 20 steps")
    equal = compare_tensors(tensor(np.int64([0])), tensor(np.int64([0])), wide)
    assert flagged(equal, "constant") == equal, "a step with the reference's own bits agrees"


@pytest.mark.parametrize(
    ("refs", "gots"),
    [
        ([[1], [2], [3]], [[0], [0], [1]]),
        ([[4], [4], [4]], [[0], [0], [0]]),
        ([[1], [2]], [[0], [0]]),
        ([[1.0], [1.0 + 1e-40], [1.0]], [[0.0], [0.0], [0.0]]),
        ([["a"], ["b"], ["c"]], [["a"], ["a"], ["a"]]),
        ([[], [], []], [[], [], []]),
        ([[1, 2], [1], [3]], [[0, 0], [0], [0]]),
    ],
    ids=["it changes", "the reference does not", "two steps", "rounding", "text", "empty", "another shape"],
)
def test_it_is_not_constant(refs, gots):
    assert constant_over_steps(series(refs, gots), FP32) == ""


def test_codes_of_one_lsb_are_as_good_as_constant():
    steps = series([np.int8([1]), np.int8([2]), np.int8([1])], [np.int8([1])] * 3)
    assert constant_over_steps(steps, profile("int8")) == ""


def test_no_more_steps_are_loaded_than_it_takes():
    steps = [*series([[1], [2]], [[0], [1]]), lambda: pytest.fail("it changed at step 1 already")]
    assert constant_over_steps(steps, FP32) == ""


@given(st.lists(st.integers(0, 5), min_size=3, max_size=8), st.lists(st.integers(0, 5), min_size=3, max_size=8))
def test_constant_means_one_result_and_a_reference_of_several(refs, gots):
    count = min(len(refs), len(gots))
    told = constant_over_steps(series([[ref] for ref in refs[:count]], [[got] for got in gots[:count]]), FP32)
    assert bool(told) == (len(set(gots[:count])) == 1 and any(ref != refs[0] for ref in refs[:count]))


def test_nothing_is_introduced_behind_the_first_step_that_disagrees():
    def failing(name, *, introduced):
        return TensorVerdict(name, "fail", "differs; first deviating layer", introduced=introduced)

    verdicts = (
        replace(failing("step-0/a", introduced=None), status="pass"),
        failing("step-2/a", introduced=True),
        failing("step-2/b", introduced=False),
        failing("step-10/a", introduced=True),
        failing("mask", introduced=True),
    )
    assert first_step(verdicts) == 2
    told = behind_first_step(verdicts)
    assert [layer.introduced for layer in told] == [None, True, False, False, True]
    assert told[3].reason == "differs; behind step 2, which disagrees already"
    assert first_step(verdicts[:1]) is None
    assert behind_first_step(verdicts[:1]) == verdicts[:1]
