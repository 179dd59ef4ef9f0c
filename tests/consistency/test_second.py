"""Who is wrong, the device or the golden: three referees, all ways in which they can stand to each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.metrics import count_nonfinite, stats_from_arrays
from consistency.records import CaseVerdict, TaskResult, Witnesses
from consistency.second import disputed
from consistency.thresholds import profile
from consistency.verdict import judge_case
from tests.consistency.builders import Node, chain, digest, evidence_of, observe, reference_of

RIGHT = np.linspace(1, 2, 64, dtype=np.float32)
WRONG = RIGHT + np.float32(0.5)
NEAR = RIGHT + np.float32(1e-6)
FP32 = profile("fp32")


def witnesses(golden: list[Node], canonical: list[Node], evaluator: list[Node], device: list[Node]) -> Witnesses:
    """As the farm would bring them: everything compared with everything that is needed."""
    own = reference_of(canonical)
    told = reference_of(evaluator, canonical)
    seen = [observe(e, g, 0.0) for e, g in zip(evaluator, golden, strict=True)]
    measured = {
        (d.id, digest(d.value)): stats_from_arrays(d.value, c.value, 0.0)
        for d, c in zip(device, canonical, strict=True)
        if d.value.shape == c.value.shape
    }
    return Witnesses(
        {layer.id: layer for layer in own},
        {layer.id: layer for layer in told},
        {layer.id: layer for layer in seen},
        measured,
        name="the evaluator",
    )


def hear(golden: object, canonical: object, evaluator: object, device: object, **changes: object) -> CaseVerdict:
    """A case of two layers, of which the second is what they quarrel about."""
    traces = [chain(RIGHT, value) for value in (golden, canonical, evaluator, device)]
    evidence = evidence_of(traces[3], traces[0], canonical=traces[1], **changes)
    return judge_case(replace(evidence, witnesses=witnesses(traces[0], traces[1], traces[2], traces[3])))


def test_a_golden_that_all_others_contradict_is_suspect_and_blames_no_commit() -> None:
    verdict = hear(WRONG, RIGHT, NEAR, RIGHT)
    assert (verdict.status, verdict.notes) == ("inconclusive", ("golden_suspect",))
    assert verdict.reason.startswith("golden suspect at Conv `l1`: the device is 0 from canonical and ")
    assert "0.5 from ONNX Runtime's golden" in verdict.reason
    assert "this does not speak against the commit, and proves nothing for it" in verdict.reason
    assert verdict.opinion is not None
    (layer,) = verdict.opinion.layers
    assert (layer.layer, layer.canonical, layer.outvoted) == ("l1", 0.0, True)
    assert layer.golden == pytest.approx(0.5)
    assert layer.evaluator == pytest.approx(1e-6, rel=0.2)


def test_a_device_with_bits_of_its_own_agrees_by_way_of_canonical() -> None:
    verdict = hear(WRONG, RIGHT, NEAR, RIGHT + np.float32(2e-6))
    assert verdict.status == "inconclusive"
    assert verdict.opinion is not None
    assert verdict.opinion.layers[0].evaluator == pytest.approx(3e-6, rel=0.2), "distances add up at most"


def test_a_fault_that_canonical_shares_is_a_failure_when_the_evaluator_upholds_the_golden() -> None:
    verdict = hear(RIGHT, WRONG, NEAR, WRONG)
    assert verdict.status == "fail"
    assert "canonical fails at `l1` too, but ONNX's reference evaluator agrees with the golden" in verdict.reason
    assert verdict.opinion is not None
    assert verdict.opinion.status == "golden_upheld"


def test_a_fault_of_the_device_alone_asks_nobody() -> None:
    verdict = hear(RIGHT, RIGHT, RIGHT, WRONG)
    assert (verdict.status, verdict.opinion) == ("fail", None)


@pytest.mark.parametrize("device", [WRONG + np.float32(0.5), RIGHT + np.float32(0.1)])
def test_a_device_that_agrees_with_nobody_is_a_failure(device: np.ndarray) -> None:
    verdict = hear(WRONG, RIGHT, NEAR, device)
    assert verdict.status == "fail"
    assert "the device differs from canonical at `l1`" in verdict.reason


def test_three_opinions_are_no_majority() -> None:
    verdict = hear(RIGHT, WRONG, WRONG + np.float32(0.5), WRONG)
    assert verdict.status == "fail"
    assert "neither the device nor the golden agrees with ONNX's reference evaluator" in verdict.reason


def test_an_evaluator_without_an_opinion_acquits_nobody_and_says_why() -> None:
    golden, canonical = chain(RIGHT, WRONG), chain(RIGHT, RIGHT)
    heard = replace(witnesses(golden, canonical, canonical, canonical), evaluator={}, lacking={"l1": "cannot do Frob"})
    verdict = judge_case(replace(evidence_of(canonical, golden, canonical=canonical), witnesses=heard))
    assert verdict.status == "fail"
    assert "the evaluator has no opinion of it: cannot do Frob" in verdict.reason
    assert verdict.opinion is not None
    assert verdict.opinion.status == "undecided"


def test_a_regression_beside_a_suspect_golden_is_a_regression() -> None:
    golden = chain(RIGHT, WRONG, RIGHT)
    canonical, device = chain(RIGHT, RIGHT, RIGHT), chain(RIGHT, RIGHT, WRONG)
    evidence = evidence_of(device, golden, canonical=canonical)
    heard = witnesses(golden, canonical, canonical, device)
    verdict = judge_case(replace(evidence, witnesses=heard))
    assert verdict.status == "fail"
    assert "the golden is outvoted at Conv `l1`, but not everywhere" in verdict.reason


def test_a_golden_with_a_nan_that_nobody_else_has_is_suspect() -> None:
    broken = RIGHT.copy()
    broken[7] = np.nan
    verdict = hear(broken, RIGHT, RIGHT, RIGHT)
    assert verdict.status == "inconclusive"


def test_a_failing_task_is_no_matter_of_the_golden() -> None:
    verdict = hear(WRONG, RIGHT, RIGHT, RIGHT, tasks=(TaskResult("label", "fail", "90", "0"),))
    assert verdict.status == "fail"
    assert "task `label` expected 90, got 0" in verdict.reason


def test_integers_are_counted_as_integers() -> None:
    right = np.arange(64, dtype=np.int32) * 30000
    verdict = hear(right // 2, right, right, right)
    assert verdict.status == "inconclusive"
    assert hear(right, right // 2, right, right // 2).status == "fail"


def test_a_bit_exact_profile_has_no_golden_to_suspect() -> None:
    reference = reference_of(chain(RIGHT, WRONG), chain(RIGHT, RIGHT))
    assert disputed(FP32, reference, ["l1"]) == ("l1",)
    assert disputed(profile("bitexact"), reference, ["l1"]) == ()


VALUES = st.sampled_from([0.0, 0.0, 1e-6, 0.3, 0.6, -0.5])


@given(VALUES, VALUES, VALUES, VALUES)
def test_the_golden_is_suspect_only_when_it_stands_alone(golden: float, canon: float, other: float, own: float) -> None:
    values = [RIGHT + np.float32(offset) for offset in (golden, canon, other, own)]
    verdict = hear(*values)
    near = [abs(own - who) < 1e-3 for who in (golden, canon, other)]
    alone = near == [False, True, True]
    assert (verdict.status == "inconclusive") == alone
    assert (verdict.status == "pass") == near[0], "who agrees with the golden passes, whatever the others say"
    assert (verdict.status == "fail") == (not alone and not near[0])


@given(VALUES, VALUES, VALUES, VALUES)
def test_other_referees_never_make_anything_pass_or_fail(golden: float, canon: float, other: float, own: float) -> None:
    values = [RIGHT + np.float32(offset) for offset in (golden, canon, other, own)]
    before = judge_case(
        evidence_of(chain(RIGHT, values[3]), chain(RIGHT, values[0]), canonical=chain(RIGHT, values[1]))
    )
    after = hear(*values)
    assert (after.status == "pass") == (before.status == "pass")
    assert after.status in (before.status, "inconclusive")
    assert after.coverage == before.coverage
    assert count_nonfinite(values[3]).total == 0
