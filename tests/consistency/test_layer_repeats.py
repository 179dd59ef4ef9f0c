"""Layers that vary from run to run while the outputs do not: a note within bounds, flaky beyond them."""

from dataclasses import replace

import numpy as np

from consistency.records import Floor, LayerRuns
from consistency.verdict import judge_case
from tests.consistency.builders import chain, digest, evidence_of, observe

BASE = np.linspace(1, 2, 50, dtype=np.float32)
GOLDEN = chain(BASE, BASE * 2, BASE * 3, BASE * 4)
SMALL, LARGE = 1e-5, 0.5


def varying(index, *offsets, unmeasured=0, **changes):
    """Layer ``index`` as runs give it that are off by ``offsets``; no statistics of the first ``unmeasured``."""
    node = GOLDEN[index]
    shown = [observe(replace(node, value=node.value + np.float32(offset)), node, 1e-4) for offset in offsets]
    known = {layer.digest: layer for layer in shown} | {
        layer.digest: replace(layer, stats=None) for layer in shown[:unmeasured]
    }
    return LayerRuns(tuple(layer.digest for layer in shown), known, **changes)


def judged(runs, observed=None, **changes):
    """The verdict of a case whose layers gave ``runs``, and in the run that is judged ``observed`` (layer → offset)."""
    trace = [replace(node, value=node.value + np.float32((observed or {}).get(node.id, 0))) for node in GOLDEN]
    evidence = evidence_of(trace, GOLDEN)
    return judge_case(replace(evidence, layer_runs=runs, layers_ran=5, **changes))


def test_variation_within_bounds_is_a_note_that_says_where_it_starts():  # A12, inside
    runs = {
        "l1": varying(1, 0, SMALL, 2 * SMALL, width=4e-5, on_one=("a", "a")),
        "l2": varying(2, 0, SMALL, SMALL),
    }
    verdict = judged(runs, {"l1": SMALL})
    assert (verdict.status, verdict.notes) == ("pass", ("nondeterministic",))
    assert verdict.remarks == (
        "the layers start to vary at Conv `l1`: 3 different results in 3 runs (with 1 thread it repeats itself), "
        "4e-05 apart at most: its own noise; each within bounds; 1 more layer varies",
    )
    assert (verdict.inner.state, verdict.inner.first, verdict.inner.runs) == ("varies", ("l1",), 5)
    assert verdict.inner.floors["l1"] == Floor(4e-5, 4e-5)


def test_variation_beyond_bounds_is_flaky_whichever_run_was_judged():
    for seen in (0.0, LARGE):
        verdict = judged({"l1": varying(1, 0, LARGE, 0, 0)}, {"l1": seen})
        assert verdict.status == "flaky"
        assert "start to vary at Conv `l1`: 2 different results in 4 runs" in verdict.reason
        assert "1 of them beyond bounds" in verdict.reason
        assert "nondeterministic" in verdict.notes


def test_beyond_bounds_further_down_is_flaky_and_the_first_that_varies_is_named():
    runs = {"l1": varying(1, 0, SMALL, SMALL), "l2": varying(2, 0, LARGE, 0)}
    verdict = judged(runs, {"l1": SMALL})
    assert verdict.status == "flaky"
    assert "start to vary at Conv `l1`" in verdict.reason
    assert "1 of them beyond bounds in some runs, first `l2`" in verdict.reason


def test_a_layer_that_always_fails_stays_a_failure():
    runs = {"l1": varying(1, LARGE, LARGE + SMALL, LARGE)}
    verdict = judged(runs, {"l1": LARGE})
    assert verdict.status == "fail"
    assert "each beyond bounds" in verdict.remarks[-1]
    steady = judged({"l2": varying(2, 0, LARGE)}, {"l0": LARGE})
    assert (steady.status, steady.first_deviating) == ("fail", ("l0",)), "what comes and goes hides no failure"


def test_where_looking_changes_the_outputs_the_layers_do_not_decide():
    verdict = judged({"l1": varying(1, 0, LARGE)}, instrumented_outputs={"l3": digest(BASE)})
    assert verdict.status == "pass"
    assert "observer_effect" in verdict.notes


def test_what_was_not_measured_is_told_and_decides_nothing():
    verdict = judged({"l1": varying(1, SMALL, 2 * SMALL, 3 * SMALL, unmeasured=1)}, {"l1": SMALL})
    assert verdict.status == "pass"
    assert "each that was measured within bounds" in verdict.remarks[0]
    verdict = judged({"l1": varying(1, SMALL, 2 * SMALL, unmeasured=2)}, {"l1": SMALL})
    assert verdict.inner.floors == {"l1": None}
    assert "how far apart is not known; none was measured" in verdict.remarks[0]


def test_layers_that_repeat_themselves_need_no_words():
    verdict = judged({})
    assert (verdict.inner.state, verdict.remarks, verdict.notes) == ("same", (), ())
    assert judge_case(evidence_of(GOLDEN, GOLDEN)).inner.state == "unknown"


def test_parallel_branches_each_name_their_own_start():
    runs = {"l1": varying(1, 0, SMALL), "l3": varying(3, 0, SMALL)}
    parallel = tuple(
        replace(layer, inputs=("x",)) if layer.id == "l3" else layer for layer in evidence_of(GOLDEN, GOLDEN).reference
    )
    assert judged(runs, reference=parallel).inner.first == ("l1", "l3")
