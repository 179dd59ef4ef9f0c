"""Looking at a few layers at a time: groups that leave the result alone are found, whichever layers disturb."""

from hypothesis import given
from hypothesis import strategies as st

from engine.contract.result import Effective, LayerRecord, PassRecord, Result, RunnerInfo
from farm.looking import MAX_CALLS, changed_by_looking, look_again

PLAIN = {"y": "0" * 32}
OTHER = {"y": "1" * 32}


def answer(*passes, layers=()):
    records = tuple(PassRecord(kind, index, outputs, 1) for index, (kind, outputs) in enumerate(passes))
    shown = tuple(LayerRecord(name, "Conv", "float32", (1,), "2" * 32) for name in layers)
    info, effective = RunnerInfo("stub", "1", "", 1), Effective("cpu", "fp32", 1, None, "x")
    return Result("job", 1, info, effective, records, (), shown, 0)


def runtime(disturbing, asked):
    """A runtime whose outputs change as soon as one of ``disturbing`` is captured."""

    def look(group):
        asked.append(group)
        outputs = OTHER if set(group) & set(disturbing) else PLAIN
        return answer(("instrumented", outputs), layers=group)

    return look


def test_only_a_result_that_is_stable_otherwise_is_changed_by_looking():
    plain, other = ("plain", PLAIN), ("plain", OTHER)
    assert changed_by_looking(answer(plain, plain, ("instrumented", OTHER)))
    assert not changed_by_looking(answer(plain, ("instrumented", PLAIN)))
    assert not changed_by_looking(answer(plain, other, ("instrumented", OTHER)))
    assert not changed_by_looking(answer(plain))
    assert not changed_by_looking(answer(("instrumented", OTHER)))


@given(st.integers(1, 20), st.data())
def test_every_layer_that_does_not_disturb_is_seen_given_enough_calls(count, data):
    names = [f"l{index}" for index in range(count)]
    disturbing = data.draw(st.sets(st.sampled_from(names)))
    asked: list[tuple[str, ...]] = []
    seen = look_again(names, PLAIN, runtime(disturbing, asked), most=1000)
    assert set(seen.direct) == set(names) - disturbing
    assert seen.calls == len(asked) <= 2 * count
    assert all(len(set(group)) == len(group) for group in asked)


def test_calls_are_bounded_and_what_was_seen_stays():
    names = [f"l{index}" for index in range(64)]
    asked: list[tuple[str, ...]] = []
    seen = look_again(names, PLAIN, runtime({"l0"}, asked))
    assert seen.calls == len(asked) == MAX_CALLS
    assert {"l2", "l63"} <= set(seen.direct)
    assert "l0" not in seen.direct


def test_looking_ends_when_there_is_no_time_and_what_was_seen_stays():
    names = [f"l{index}" for index in range(64)]
    asked: list[tuple[str, ...]] = []
    seen = look_again(names, PLAIN, runtime({"l0"}, asked), may=lambda: len(asked) < 3)
    assert seen.calls == len(asked) == 3
    assert "l63" in seen.direct


def test_nothing_wanted_costs_nothing():
    asked: list[tuple[str, ...]] = []
    assert look_again([], PLAIN, runtime((), asked)).calls == 0
    assert asked == []


def test_a_runner_that_gives_no_instrumented_pass_shows_nothing():
    assert look_again(["l0"], PLAIN, lambda group: answer(layers=group)).direct == {}
