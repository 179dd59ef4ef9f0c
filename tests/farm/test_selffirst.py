"""A device against itself, asked of a scripted runner: a fake that gives the outputs it was told to give."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from consistency.metrics import stats_from_arrays
from engine.contract.errors import RunnerError
from engine.contract.request import ModelFile, Request
from engine.contract.result import Effective, OutputRecord, PassRecord, Result, RunnerInfo
from engine.digest import tensor_digest
from farm.selffirst import SelfFirst, Spread, is_proved
from farm.timeleft import MEASURING_CALLS

REFERENCE = np.float32([364.736, 1.0])


def values(first):
    return np.float32([first, 1.0])


def answer(array, threads=1, passes=("plain",)):
    digest = tensor_digest(array)
    told = tuple(PassRecord(kind, 0, {"y": digest}, 1) for kind in passes)
    effective = Effective("cpu", "fp32", threads, None, "x")
    output = OutputRecord("y", "float32", array.shape, digest, "0.bin")
    return Result("job", 1, RunnerInfo("fake", "1", "", 0), effective, told, (output,), (), 0)


@dataclass
class ScriptedCall:
    """A fake runner: on several threads it gives ``many`` in turn, on one thread ``one``; refuses one when told so."""

    many: list[float]
    one: list[float] = field(default_factory=list)
    refuses: bool = False
    time_for: int = 99
    asked: list[Request] = field(default_factory=list)

    def has_time_for(self, what, *, must_follow):
        assert must_follow == MEASURING_CALLS, "the layers are measured after this"
        self.time_for -= 1
        return self.time_for >= 0

    def call(self, request):
        self.asked.append(request)
        if request.threads == 1 and self.refuses:
            raise RunnerError("threads is 1; this engine wants two")
        script = self.one if self.one and request.threads == 1 else self.many
        self.last = values(script.pop(0))
        return answer(self.last, request.threads)


def look(call, first, threads=1):
    request = Request("job", 1, ModelFile("m", "0" * 64, "onnx"), (), threads=threads)

    def judged(output, data):
        return data, stats_from_arrays(data, REFERENCE, 1e-3)

    first = values(first)
    return SelfFirst(call, request, lambda output: call.last, judged).look(answer(first, threads), {"y": first})


def test_one_more_run_of_the_same_bits_is_all_it_takes():
    call = ScriptedCall([2.0] * 9)
    told = look(call, 2.0)
    (asked,) = call.asked
    assert (asked.passes, asked.iterations, asked.expected) == (("plain",), 1, {})
    assert told["noise"] == {}
    assert told["again"] == [{"threads": 1, "outputs": {"y": tensor_digest(values(2.0))}, "stats": {}}]


def test_what_varies_runs_five_times_and_its_noise_is_measured():  # A12
    told = look(ScriptedCall([364.732, 364.737, 364.740, 364.735]), 364.738)
    assert len(told["again"]) == 4
    assert told["noise"] == {"y": pytest.approx(0.008, abs=1e-4)}
    assert all(run["stats"]["y"]["max_abs"] < 0.01 for run in told["again"])


def test_while_time_is_short_the_runs_there_are_give_the_noise():
    told = look(ScriptedCall([364.732, 364.737, 364.740], time_for=2), 364.738, threads=2)
    assert [run["threads"] for run in told["again"]] == [2, 2, 2]
    assert told["noise"] == {"y": pytest.approx(0.008, abs=1e-4)}


def test_several_threads_are_compared_with_one():  # A12: the spread with one thread must be 0
    call = ScriptedCall([364.732, 364.737, 364.740, 364.735], one=[364.736, 364.736])
    told = look(call, 364.738, threads=4)
    assert [run["threads"] for run in told["again"]] == [4, 4, 4, 4, 1, 1]
    assert told["again"][-1]["outputs"] == told["again"][-2]["outputs"]
    assert told["noise"] == {"y": pytest.approx(0.008, abs=1e-4)}, "the other number of threads is no noise"
    steady = look(ScriptedCall([2.0], one=[3.0]), 2.0, threads=4)
    assert [run["threads"] for run in steady["again"]] == [4, 1]
    assert steady["noise"] == {}


def test_an_engine_that_cannot_run_on_one_thread_keeps_what_it_showed():
    assert len(look(ScriptedCall([2.0], refuses=True), 2.0, threads=4)["again"]) == 1


def test_two_passes_with_a_references_bits_need_no_third():
    known = {"y": (tensor_digest(REFERENCE),)}
    both = answer(REFERENCE, passes=("plain", "instrumented"))
    assert is_proved(both, known)
    assert not is_proved(both, {"y": ("0" * 32,)})
    assert not is_proved(answer(REFERENCE), known), "one pass repeats nothing"
    unlike = (both.passes[0], replace(both.passes[1], outputs={"y": "1" * 32}))
    assert not is_proved(replace(both, passes=unlike), known)


@given(st.lists(arrays(np.float32, 3, elements=st.floats(-1e3, 1e3, width=32)), min_size=1, max_size=6))
def test_the_noise_is_the_largest_distance_between_two_runs(runs):
    spread = Spread.of(runs[0])
    for run in runs[1:]:
        spread.add(run)
    largest = max(float(np.abs(a.astype(np.float64) - b).max()) for a in runs for b in runs)
    assert spread.width == largest


def test_values_that_are_no_number_have_no_distance():
    spread = Spread.of(np.float32([1.0, np.nan, np.inf]))
    spread.add(np.float32([np.nan, np.nan, 2.0]))
    assert spread.width == 0.0
    integers = Spread.of(np.int8([-128]))
    integers.add(np.int8([127]))
    assert integers.width == 255.0
    assert Spread.of(np.zeros(0, np.float32)).width == 0.0
