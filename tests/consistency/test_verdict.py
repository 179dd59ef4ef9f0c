from dataclasses import replace

import numpy as np
import pytest

from consistency.metrics import stats_from_arrays
from consistency.records import BaseEvidence, Expectation, NonFinite, PlainRun, TaskResult
from consistency.verdict import judge_case, not_run
from tests.consistency.builders import Node, chain, digest, evidence_of, observe, reference_of

GOLDEN = chain(*(np.linspace(1, 2, 50, dtype=np.float32) * scale for scale in (1, 2, 3, 4)))


def broken_from(index, offset=0.3):
    return [
        replace(node, value=node.value + np.float32(offset)) if i >= index else node for i, node in enumerate(GOLDEN)
    ]


def test_equal_bits_pass_and_say_so():
    verdict = judge_case(evidence_of(GOLDEN, GOLDEN))
    assert (verdict.status, verdict.notes) == ("pass", ())
    assert verdict.reason == "all 4 compared layers equal canonical bit for bit"
    assert (verdict.coverage.paired, verdict.coverage.expected) == (4, 4)


def test_a_failure_names_the_layer_and_those_that_inherit():
    verdict = judge_case(evidence_of(broken_from(1), GOLDEN))
    assert verdict.status == "fail"
    assert verdict.first_deviating == ("l1",)
    assert verdict.reason.startswith("Conv `l1` differs from the golden by 0.3 (bound ")
    assert verdict.reason.endswith("it introduces this itself; 2 later layers inherit it")
    assert [layer.introduced for layer in verdict.layers] == [False, True, False, False]
    assert (verdict.worst.layer, verdict.worst.metric) == ("l1", "max_abs")
    assert verdict.worst.would_pass == pytest.approx(0.3, rel=1e-5)


def test_the_first_non_finite_layer_is_named_and_later_ones_inherit():  # A1
    trace = [replace(node, value=node.value * np.nan) if i else node for i, node in enumerate(GOLDEN)]
    verdict = judge_case(evidence_of(trace, GOLDEN))
    assert verdict.first_deviating == ("l1",)
    assert verdict.reason.startswith("Conv `l1` has 50 NaN of 50 elements")
    assert verdict.reason.endswith("2 later layers inherit it")


def test_a_non_finite_layer_behind_another_failure_is_named_too():
    trace = broken_from(1)
    trace[3] = replace(trace[3], value=np.full_like(trace[3].value, np.inf))
    assert "first non-finite layer is Conv `l3`" in judge_case(evidence_of(trace, GOLDEN)).reason


def test_an_add_is_blamed_and_not_what_feeds_it():  # A2
    def trace(added):
        feed = np.full((1, 8), 0.8388671875, np.float16)
        return [Node("variance", "ReduceMean", ("x",), feed), Node("add", "Add", ("variance",), feed * 0 + added)]

    golden = trace(np.float16(0.8388671875))
    verdict = judge_case(evidence_of(trace(np.float16(0.21)), golden, name="fp16"))
    assert verdict.first_deviating == ("add",)


def test_nothing_compared_is_never_a_pass():
    evidence = evidence_of(GOLDEN, GOLDEN)
    blind = tuple(replace(layer, digest="0" * 32, stats=None) for layer in evidence.observed)
    verdict = judge_case(replace(evidence, observed=blind, outputs=blind[-1:]))
    assert verdict.status == "not_compared"
    assert "nothing was compared: 0 of 4 layers" in verdict.reason


def test_a_missing_layer_is_never_a_pass():
    evidence = evidence_of(GOLDEN, GOLDEN)
    verdict = judge_case(replace(evidence, observed=evidence.observed[:1] + evidence.observed[2:]))
    assert verdict.status == "not_compared"
    assert "1 of 4 expected layers are neither reported nor covered, first `l1`" in verdict.reason
    assert verdict.coverage.missing == 1


def test_a_missing_output_fails():
    evidence = evidence_of(GOLDEN, GOLDEN)
    verdict = judge_case(replace(evidence, outputs=()))
    assert (verdict.status, verdict.reason) == ("fail", "output `l3` is missing from the plain run")


def test_fused_layers_are_counted_and_not_called_equal():
    evidence = evidence_of(GOLDEN, GOLDEN)
    fused = (replace(evidence.observed[2], covers=("l0", "l1")), evidence.observed[3])
    verdict = judge_case(replace(evidence, observed=fused))
    assert verdict.status == "pass"
    assert (verdict.coverage.paired, verdict.coverage.not_observable) == (2, 2)
    assert verdict.reason.endswith("2 of 4 layers are not observable")


def test_level_0_is_judged_by_its_outputs():
    evidence = replace(evidence_of(GOLDEN, GOLDEN), level=0, observed=(), instrumented_outputs=None)
    verdict = judge_case(evidence)
    assert (verdict.status, verdict.coverage.paired, verdict.coverage.not_observable) == ("pass", 1, 3)
    bad = replace(evidence_of(broken_from(3), GOLDEN), level=0, observed=(), instrumented_outputs=None)
    assert (judge_case(bad).status, judge_case(bad).first_deviating) == ("fail", ("l3",))


def test_layers_of_a_level_0_runner_are_not_believed():
    evidence = replace(evidence_of(broken_from(1), GOLDEN), level=0)
    good = evidence_of(GOLDEN, GOLDEN)
    verdict = judge_case(replace(evidence, outputs=good.outputs, plain_runs=good.plain_runs))
    assert (verdict.status, verdict.coverage.paired, verdict.coverage.not_observable) == ("pass", 1, 3)


def test_dumping_that_changes_the_result_is_reported_and_only_localises():  # A16
    golden = chain(np.float32([0.5]), np.float32([1.00]))
    dumped = chain(np.float32([0.5]), np.float32([1.02]))
    evidence = evidence_of(dumped, golden)
    plain = observe(golden[-1], golden[-1], 1e-4)
    verdict = judge_case(
        replace(evidence, outputs=(plain,), plain_runs=(PlainRun(0, {"l1": plain.digest}),)),
    )
    assert (verdict.status, verdict.notes) == ("pass", ("observer_effect",))
    assert any("dumping changes the result" in remark for remark in verdict.remarks)
    assert verdict.layers[1].reason.endswith("(indirect: dumping the layers changes the result)")
    assert verdict.layers[0].reason == ""


def test_dumping_that_hides_a_bug_does_not_hide_it():  # A16
    bad = broken_from(3)
    plain = observe(bad[-1], GOLDEN[-1], 1e-4)
    evidence = replace(evidence_of(GOLDEN, GOLDEN), outputs=(plain,), plain_runs=(PlainRun(0, {"l3": plain.digest}),))
    verdict = judge_case(evidence)
    assert (verdict.status, verdict.first_deviating, verdict.notes) == ("fail", ("l3",), ("observer_effect",))


def runs(*values, golden=GOLDEN, known=True):
    good = golden[-1]
    made = []
    for iteration, value in enumerate(values):
        array = good.value + np.float32(value)
        stats = {"l3": stats_from_arrays(array, good.value, 1e-4)} if known else {}
        made.append(PlainRun(iteration, {"l3": digest(array)}, stats))
    return tuple(made)


def test_only_the_first_run_is_garbage():  # A20
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), plain_runs=runs(9, 0, 0, 0, 0, known=False)))
    assert (verdict.status, verdict.notes) == ("fail", ("nondeterministic",))
    assert verdict.reason.startswith("first-run only: output `l3` of iteration 0 differs from all later ones")


def test_a_bad_first_run_fails_although_the_later_tensors_were_not_kept():  # A20
    plain_runs = (*runs(9), *(replace(run, iteration=run.iteration + 1) for run in runs(1e-5, 1e-5, known=False)))
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), plain_runs=plain_runs))
    assert verdict.status == "fail"
    assert "differs from all later ones and is beyond bounds" in verdict.reason


def test_variation_within_bounds_is_a_note():  # A12
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), plain_runs=runs(0, 1e-5, 2e-5)))
    assert (verdict.status, verdict.notes) == ("pass", ("nondeterministic",))
    assert "3 different results in 3 runs; each within bounds" in verdict.remarks[0]


def on(threads, *given):
    return tuple(replace(run, threads=threads) for run in given)


def test_noise_and_threads_are_told():  # A12
    many, one = on(4, *runs(0, 1e-5, 2e-5)), on(1, *runs(3e-5, 3e-5))
    one = tuple(replace(run, iteration=run.iteration + 3) for run in one)
    evidence = replace(evidence_of(GOLDEN, GOLDEN), plain_runs=(*many, *one), noise={"l3": 2e-5})
    verdict = judge_case(evidence)
    assert (verdict.status, verdict.notes) == ("pass", ("nondeterministic",))
    assert verdict.remarks[0] == (
        "output `l3` has 3 different results in 3 runs (with 1 thread it repeats itself), 2e-05 apart at most: "
        "its own noise; each within bounds"
    )
    unlike = (one[0], replace(one[1], outputs={"l3": "other"}, stats=many[1].stats))
    verdict = judge_case(replace(evidence, plain_runs=(*many, *unlike)))
    assert "(it varies with 1 thread too)" in verdict.remarks[0]


def test_other_bits_with_another_number_of_threads_are_a_note():
    same = on(4, *runs(0, 0))
    other = replace(on(1, *runs(1e-5))[0], iteration=2)
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), plain_runs=(*same, other)))
    assert (verdict.status, verdict.notes) == ("pass", ("nondeterministic",))
    assert "output `l3` is the same in 2 runs and another one with 1 thread; each within bounds" in verdict.remarks[0]


def test_a_constant_output_fails_before_any_tolerance():  # A24
    small = [*GOLDEN[:3], replace(GOLDEN[3], value=np.float32([1e-3, 2e-3] * 25))]
    still = [*small[:3], replace(small[3], value=np.full(50, 1.5e-3, np.float32))]
    evidence = evidence_of(still, small)
    output = replace(evidence.outputs[0], constant_span=1e-3)
    verdict = judge_case(replace(evidence, outputs=(output,)))
    assert verdict.status == "fail"
    assert "constant output: all 50 elements are 0.0015 where the golden's range over 0.001" in verdict.reason
    assert verdict.outputs[0].metric == "constant"
    rounding = replace(output, constant_span=1e-9)
    assert judge_case(replace(evidence, outputs=(rounding,))).outputs[0].metric != "constant"


def decoder(tokens, wrong=0.0):
    """Embedding and logits of twenty steps, and the token of each."""
    logits = np.zeros((20, 11), np.float32)
    logits[np.arange(20), np.arange(20) * 7 % 11] = 1
    return chain(np.linspace(1, 2, 20, dtype=np.float32) + np.float32(wrong), logits, np.int64(tokens), op="MatMul")


def test_a24_constant_tokens_are_traced_to_the_layers_from_the_first_iteration_on():
    tokens = np.arange(20) * 7 % 11
    evidence = evidence_of(decoder([0] * 20, wrong=0.5), decoder(tokens))
    output = replace(evidence.outputs[0], constant_span=10.0)
    later = {"l2": "e" * 32}
    runs = (PlainRun(0, {"l2": output.digest}), PlainRun(1, later), PlainRun(2, later))
    verdict = judge_case(replace(evidence, outputs=(output,), plain_runs=runs, iterations=3))
    assert (verdict.outputs[0].status, verdict.outputs[0].metric) == ("fail", "constant")
    assert "constant output: all 20 elements are 0" in verdict.outputs[0].reason
    assert verdict.first_deviating == ("l0",), "a layer inside, not the output"
    assert verdict.remarks[0] == ("layers are those of iteration 0 of 3: what parts later shows in the outputs only")
    assert not [text for text in judge_case(evidence).remarks if "iteration" in text]


def test_variation_beyond_bounds_is_flaky():
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), plain_runs=runs(0, 9, 0, 9)))
    assert verdict.status == "flaky"
    assert "2 different results in 4 runs; 2 of them beyond bounds" in verdict.reason


def test_variation_that_was_not_kept_is_inconclusive():
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), plain_runs=runs(0, 1, 0, 1, known=False)))
    assert verdict.status == "inconclusive"


def test_a_first_run_of_nan_does_not_taint_the_later_ones():  # A20
    nan = [*GOLDEN[:3], replace(GOLDEN[3], value=GOLDEN[3].value * np.float32(np.nan))]
    plain_runs = (PlainRun(0, {"l3": digest(nan[3].value)}), PlainRun(1, {"l3": "a"}), PlainRun(2, {"l3": "a"}))
    evidence = evidence_of(GOLDEN, GOLDEN)
    output = observe(nan[3], GOLDEN[3], 1e-4)
    verdict = judge_case(replace(evidence, outputs=(output,), plain_runs=plain_runs))
    assert (verdict.status, "first-run only" in verdict.reason) == ("fail", True)


def test_runs_that_vary_and_are_all_wrong_fail():
    verdict = judge_case(replace(evidence_of(broken_from(3, 9), GOLDEN), plain_runs=runs(9, 8, 7)))
    assert (verdict.status, verdict.notes) == ("fail", ("nondeterministic",))


@pytest.mark.parametrize("earlier", ["fail", "crashed"])
def test_passing_only_on_retry_is_flaky(earlier):
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), earlier=(earlier,)))
    assert verdict.status == "flaky"
    assert f"earlier attempts gave {earlier}" in verdict.reason


def test_an_infrastructure_fault_before_does_not_make_it_flaky():
    assert judge_case(replace(evidence_of(GOLDEN, GOLDEN), earlier=("infra",))).status == "pass"


def test_a_failing_task_fails_and_an_unchecked_one_is_not_compared():
    task = TaskResult("rotation", "fail", "90", "180")
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), tasks=(task,)))
    assert (verdict.status, verdict.reason) == ("fail", "task `rotation` expected 90, got 180")
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), tasks=(replace(task, status="not_compared"),)))
    assert verdict.status == "not_compared"


def base_of(trace, status="pass", first=()):
    digests = {node.id: digest(node.value) for node in trace}
    return BaseEvidence(status, digests, {trace[-1].id: digests[trace[-1].id]}, first)


def test_other_bits_than_base_within_bounds_are_a_note():
    new = [replace(node, value=node.value * np.float32(1 + 1e-6)) if i >= 2 else node for i, node in enumerate(GOLDEN)]
    verdict = judge_case(replace(evidence_of(new, GOLDEN), base=base_of(GOLDEN)))
    assert (verdict.status, verdict.notes) == ("pass", ("changed",))
    assert (verdict.changed.against, verdict.changed.layers_changed) == ("base", 2)
    assert verdict.changed.first_changed_layer == "l2"
    assert verdict.changed.reason == (
        "2 of 4 layers have other bits than base, first `l2`; output `l3` differs from base"
    )
    assert [layer.changed for layer in verdict.layers] == [False, False, True, True]


def test_unchanged_against_base_has_no_note():
    verdict = judge_case(replace(evidence_of(GOLDEN, GOLDEN), base=base_of(GOLDEN)))
    assert (verdict.notes, verdict.changed.reason) == ((), "nothing changed")


def test_a_base_that_fails_alike_clears_the_commit_but_stays_red():
    evidence = replace(evidence_of(broken_from(1), GOLDEN), base=base_of(broken_from(1), "fail", ("l1",)))
    verdict = judge_case(evidence)
    assert (verdict.status, verdict.notes) == ("fail", ("base_fails_too",))
    assert "base fails at the same layer, so this commit is not the cause" in verdict.reason


def test_a_base_that_fails_elsewhere_clears_nothing():
    evidence = replace(evidence_of(broken_from(1), GOLDEN), base=base_of(broken_from(2), "fail", ("l2",)))
    assert judge_case(evidence).notes == ()


def test_bitexact_fails_the_first_other_bits_and_fp32_passes_them():
    fast = [replace(node, value=node.value * np.float32(1 + 1e-6)) if i >= 2 else node for i, node in enumerate(GOLDEN)]
    assert judge_case(evidence_of(fast, GOLDEN)).status == "pass"
    verdict = judge_case(evidence_of(fast, GOLDEN, name="bitexact"))
    assert (verdict.status, verdict.first_deviating) == ("fail", ("l2",))
    assert "ULP" in verdict.reason


def test_a_reused_buffer_is_not_observable_and_not_blamed():  # A17
    trace = [replace(GOLDEN[0], value=GOLDEN[2].value), *GOLDEN[1:]]
    verdict = judge_case(evidence_of(trace, GOLDEN))
    assert verdict.status == "pass"
    assert (verdict.layers[0].status, verdict.coverage.not_observable) == ("not_observable", 1)
    assert "its buffer was reused" in verdict.layers[0].reason


def test_two_first_deviating_layers_are_both_listed():
    def trace(a, b):
        a, b = np.float32([a] * 4), np.float32([b] * 4)
        return [Node("a", "Conv", ("x",), a), Node("b", "Conv", ("x",), b), Node("add", "Add", ("a", "b"), a + b)]

    verdict = judge_case(evidence_of(trace(1.5, 2.5), trace(1, 2)))
    assert verdict.first_deviating == ("a", "b")
    assert "other first deviating layers: `b`" in verdict.reason


def test_a_case_that_did_not_run_compares_nothing():
    reference = reference_of(GOLDEN)
    verdict = not_run("c", "a9", "fp32", reference, "crashed", "runner died of SIGILL", base_status="crashed")
    assert (verdict.status, verdict.coverage.paired, verdict.coverage.expected) == ("crashed", 0, 4)
    assert verdict.reason == "runner died of SIGILL; base crashed too, so this commit is not the cause"
    with pytest.raises(ValueError, match="cannot pass"):
        not_run("c", "a9", "fp32", reference, "pass", "")


def test_a_reference_without_outputs_is_a_programming_error():
    evidence = evidence_of(GOLDEN, GOLDEN)
    blunt = tuple(replace(layer, final=False) for layer in evidence.reference)
    with pytest.raises(ValueError, match="marks no final output"):
        judge_case(replace(evidence, reference=blunt))


def test_an_expectation_of_another_case_is_a_programming_error():
    other = Expectation("vad", "a53", {}, None, (), {}, "o", "r")
    with pytest.raises(ValueError, match="expectation is of case 'vad'"):
        judge_case(replace(evidence_of(GOLDEN, GOLDEN), expectation=other))


def test_a_lying_digest_of_non_finite_counts_does_not_pass():
    evidence = evidence_of(broken_from(3), GOLDEN)
    liar = replace(evidence.observed[3], nonfinite=NonFinite(nan=4))
    verdict = judge_case(replace(evidence, observed=(*evidence.observed[:3], liar), outputs=(liar,)))
    assert verdict.status == "fail"


def test_failing_only_on_retry_is_flaky():
    assert judge_case(replace(evidence_of(broken_from(1), GOLDEN), earlier=("pass",))).status == "flaky"
