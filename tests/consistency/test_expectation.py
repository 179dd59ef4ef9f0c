from dataclasses import replace

import numpy as np
import pytest

from consistency.expectation import accept, layers_digest
from consistency.records import TaskResult
from consistency.verdict import judge_case
from tests.consistency.builders import chain, evidence_of

GOLDEN = chain(*(np.linspace(1, 2, 50, dtype=np.float32) * scale for scale in (1, 2, 3, 4)))


def off(offset, first=1):
    return [replace(n, value=n.value + np.float32(offset if i >= first else 0)) for i, n in enumerate(GOLDEN)]


def expectation_of(trace, **changes):
    given = {"chip_model": "cortex-a53", "owner": "ana", "reason": "new tanh", "kind": "accepted", **changes}
    return accept(judge_case(evidence_of(trace, GOLDEN)), **given)


def judged(trace, expectation, **changes):
    return judge_case(replace(evidence_of(trace, GOLDEN), expectation=expectation, **changes))


def test_accepted_bits_pass_whatever_the_golden_says():
    verdict = judged(off(0.3), expectation_of(off(0.3)))
    assert (verdict.status, verdict.notes, verdict.expectation.state) == ("pass", ("accepted",), "unchanged")
    assert verdict.reason == "the bits that ana accepted: new tanh"


def test_other_bits_within_bounds_are_a_note():
    verdict = judged(off(1e-5), expectation_of(GOLDEN))
    assert (verdict.status, verdict.notes, verdict.expectation.state) == ("pass", ("changed",), "changed")
    assert (verdict.changed.against, verdict.changed.outputs_changed) == ("accepted", ("l3",))


@pytest.mark.parametrize("accepted", [GOLDEN, off(0.3)])
def test_other_bits_beyond_bounds_fail(accepted):
    verdict = judged(off(0.2), expectation_of(accepted))
    assert (verdict.status, verdict.expectation.state) == ("fail", "beyond")
    assert verdict.reason.startswith("other bits than the accepted ones, and not within bounds; Conv `l1` differs")


def test_another_inner_layer_is_a_change_although_the_output_is_not():
    trace = [GOLDEN[0], replace(GOLDEN[1], value=GOLDEN[1].value * np.float32(1 + 1e-6)), *GOLDEN[2:]]
    assert judged(trace, expectation_of(GOLDEN)).expectation.state == "changed"


def test_it_holds_on_its_last_day_and_fails_after_it():
    expectation = expectation_of(GOLDEN, expires="2026-11-29")
    assert judged(GOLDEN, expectation, today="2026-11-29").status == "pass"
    verdict = judged(GOLDEN, expectation, today="2026-11-30")
    assert (verdict.status, verdict.expectation.state) == ("fail", "expired")
    assert "expired on 2026-11-29: review the result, then accept it again or delete the file" in verdict.reason


def test_a_date_that_is_none_is_an_error_and_not_a_pass():
    with pytest.raises(ValueError, match="isoformat"):
        judged(GOLDEN, expectation_of(GOLDEN, expires="soon"))


KNOWN = {"kind": "known_failure", "reason": "vendor bug 12"}


def test_a_known_failure_within_its_extent_passes_with_a_note():
    verdict = judged(off(0.25), expectation_of(off(0.3), **KNOWN))
    assert (verdict.status, verdict.notes) == ("pass", ("known_failure",))
    assert verdict.reason.startswith("known failure of ana: vendor bug 12; Conv `l1` differs")


def test_a_known_failure_that_grows_fails():
    verdict = judged(off(0.35), expectation_of(off(0.3), **KNOWN))
    assert (verdict.status, verdict.expectation.state) == ("fail", "known_failure_worse")
    assert "`l1` has a scaled error of" in verdict.reason


def test_a_known_failure_elsewhere_fails():
    verdict = judged(off(0.1, first=0), expectation_of(off(0.3), **KNOWN))
    assert verdict.status == "fail"
    assert "it now starts at `l0`, recorded is `l1`" in verdict.reason


def test_a_known_failure_that_passes_is_reported():
    verdict = judged(GOLDEN, expectation_of(off(0.3), **KNOWN))
    assert (verdict.status, verdict.notes) == ("pass", ("known_failure_passes",))
    assert verdict.reason == "a known failure of ana passes now: delete its expectation"


def test_a_known_nan_is_accepted_by_its_bits_only():
    nan = [replace(GOLDEN[0]), *(replace(n, value=n.value * np.float32(np.nan)) for n in GOLDEN[1:])]
    expectation = expectation_of(nan, **KNOWN)
    assert judged(nan, expectation).status == "pass"
    less = [*nan[:2], *GOLDEN[2:]]
    verdict = judged(less, expectation)
    assert verdict.status == "fail"
    assert "`l1` has no measurable extent" in verdict.reason


def test_only_recorded_tasks_may_fail():
    task = TaskResult("rotation", "fail", "90", "180")
    with_task = accept(
        judge_case(replace(evidence_of(GOLDEN, GOLDEN), tasks=(task,))), chip_model="m", owner="o", reason="r"
    )
    assert with_task.tasks == ("rotation",)
    assert judged(GOLDEN, with_task, tasks=(task,)).status == "pass"
    verdict = judged(GOLDEN, expectation_of(GOLDEN), tasks=(task,))
    assert (verdict.status, verdict.expectation.state) == ("fail", "beyond")
    assert "task rotation fails, which was not accepted" in verdict.reason


def test_an_expectation_never_speaks_for_a_run_that_compared_too_little():
    evidence = evidence_of(GOLDEN, GOLDEN)
    partial = replace(evidence, observed=evidence.observed[1:], expectation=expectation_of(GOLDEN))
    assert judge_case(partial).status == "not_compared"


def test_nothing_is_accepted_without_an_owner_a_reason_or_a_comparison():
    with pytest.raises(ValueError, match="owner and a reason"):
        expectation_of(GOLDEN, owner="")
    evidence = evidence_of(GOLDEN, GOLDEN)
    blind = tuple(replace(layer, digest="0", stats=None) for layer in evidence.observed)
    verdict = judge_case(replace(evidence, observed=blind, outputs=blind[-1:]))
    with pytest.raises(ValueError, match="nothing was compared"):
        accept(verdict, chip_model="m", owner="o", reason="r")


def test_an_int8_known_failure_grows_by_more_elements_too():
    golden = chain(np.zeros(1000, np.int8))

    def wrong(count):
        value = np.zeros(1000, np.int8)
        value[:count] = 1
        return chain(value)

    expectation = accept(
        judge_case(evidence_of(wrong(50), golden, name="int8")),
        chip_model="m",
        owner="o",
        reason="r",
        kind="known_failure",
    )
    for count, status in ((40, "pass"), (60, "fail")):
        evidence = replace(evidence_of(wrong(count), golden, name="int8"), expectation=expectation)
        assert judge_case(evidence).status == status


def test_layers_digest_ignores_order_and_sees_every_name_and_value():
    assert layers_digest({"a": "1", "b": "2"}) == layers_digest({"b": "2", "a": "1"})
    assert len({layers_digest(d) for d in ({"a": "1"}, {"b": "1"}, {"a": "2"}, {"a": "1", "b": "1"})}) == 4
    assert layers_digest({"a\nb": "1"}) != layers_digest({"a": "\nb1"})
    assert layers_digest({}) is None


def test_a_known_failure_never_turns_too_little_into_a_pass():
    evidence = evidence_of(GOLDEN, GOLDEN)
    partial = replace(evidence, observed=evidence.observed[1:], expectation=expectation_of(off(0.3), **KNOWN))
    verdict = judge_case(partial)
    assert (verdict.status, verdict.notes) == ("not_compared", ())
    assert "the known failure could not be judged: not_compared" in verdict.reason
