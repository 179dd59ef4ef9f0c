"""Cases of group A that need layers, repeats or layers alone, judged as a gate judges them."""

from dataclasses import replace

import numpy as np
import pytest

from consistency.records import ObservedLayer, PlainRun
from consistency.thresholds import absolute_bound, profile
from consistency.verdict import judge_case
from tests.consistency.builders import Node, chain, digest, evidence_of, observe

#: 0.8388671875 everywhere, and 1e-5 added: the sum is the same fp16 number.
VALUE = np.float16(0.8388671875)


def fp16(value, count=64):
    return np.full(count, value, np.float16)


def network(variance, added):
    return [Node("variance", "ReduceMean", ("x",), fp16(variance)), Node("add", "Add", ("variance",), fp16(added))]


@pytest.mark.parametrize("upstream", [0.0, 4.88e-4])
@pytest.mark.parametrize("alone", [False, True])
def test_a2_the_add_is_blamed_and_never_what_feeds_it(upstream, alone):
    golden, got = network(VALUE, VALUE + np.float16(1e-5)), network(VALUE + np.float16(upstream), 0.21)
    case = evidence_of(got, golden, name="fp16")
    if alone:
        bounds = {layer.id: absolute_bound(profile("fp16"), layer) for layer in case.reference}
        own = (observe(golden[0], golden[0], bounds["variance"]), observe(got[1], golden[1], bounds["add"]))
        case = replace(case, alone=own)
    verdict = judge_case(case)
    assert verdict.status == "fail"
    assert verdict.first_deviating == ("add",)
    assert [layer.introduced for layer in verdict.layers] == [False, True]
    assert verdict.reason.startswith("Add `add` differs from the golden by")


def test_a7_a_fused_node_is_blamed_and_its_inside_is_not_observable():
    golden = [
        Node("scaled", "Mul", ("x",), fp16(300.0)),
        Node("squared", "Pow", ("scaled",), fp16(np.inf)),
        Node("norm", "Div", ("squared",), fp16(1.0)),
    ]
    golden[1] = replace(golden[1], value=fp16(1000.0))
    got = [golden[0], golden[1], replace(golden[2], value=fp16(np.nan))]
    case = evidence_of(got, golden, name="fp16")
    fused = replace(case.observed[2], covers=("squared",))
    verdict = judge_case(replace(case, observed=(case.observed[0], fused), outputs=(case.outputs[0],)))
    scaled, squared, norm = verdict.layers
    assert (scaled.status, squared.status, norm.status) == ("pass", "not_observable", "fail")
    assert verdict.first_deviating == ("norm",)
    assert "internal values not observable" in norm.reason
    assert "overflow" not in verdict.reason


@pytest.mark.parametrize("op", ["LayerNormalization", "Softmax", "LSTM"])
def test_a7_an_operator_of_several_steps_hides_its_inside_too(op):
    golden = chain(fp16(300.0), fp16(1.0), op=op)
    verdict = judge_case(evidence_of([golden[0], replace(golden[1], value=fp16(np.nan))], golden, name="fp16"))
    assert "internal values not observable" in verdict.reason


def test_a16_dumping_changes_the_result_and_layers_are_indirect():
    golden = chain(np.float32([2.0]), np.float32([1.0]))
    dumped = chain(np.float32([2.5]), np.float32([1.02]))
    case = evidence_of(dumped, golden)
    plain = ObservedLayer("l1", "Conv", "float32", (1,), digest(golden[1].value))
    runs = (PlainRun(0, {"l1": plain.digest}),)
    verdict = judge_case(replace(case, outputs=(plain,), plain_runs=runs))
    assert verdict.status == "pass"
    assert "observer_effect" in verdict.notes
    assert "dumping changes the result" in verdict.reason
    assert all("(indirect: dumping the layers changes the result)" in layer.reason for layer in verdict.layers)


def runs_of(first, later, count=5):
    return tuple(PlainRun(i, {"l0": digest(first if i == 0 else later)}) for i in range(count))


def test_a20_only_the_first_run_is_garbage_and_it_fails():
    golden = chain(np.float32([1.0, 2.0]))
    garbage = np.float32([7e5, -3.0])
    case = evidence_of(golden, golden)
    verdict = judge_case(replace(case, plain_runs=runs_of(garbage, golden[0].value)))
    assert verdict.status == "fail"
    assert "first-run only: output `l0` of iteration 0 differs from all later ones" in verdict.reason


def test_a20_the_first_run_counts_when_it_alone_came_back():
    golden = chain(np.float32([1.0, 2.0]))
    garbage = [replace(golden[0], value=np.float32([7e5, -3.0]))]
    case = evidence_of(garbage, golden)
    first = PlainRun(0, {"l0": case.outputs[0].digest}, {"l0": case.outputs[0].stats})
    verdict = judge_case(replace(case, plain_runs=(first, *runs_of(garbage[0].value, golden[0].value)[1:])))
    assert verdict.status == "fail"
    assert "first-run only" in verdict.reason
