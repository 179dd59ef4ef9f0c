"""Three columns: what quantisation loses, what the backend adds, and whether the device's CPU adds it too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consistency.quantisation import backend_column, output_column, quantisation_column, weigh
from consistency.records import CaseVerdict, Column, Quantisation
from consistency.thresholds import profile
from consistency.verdict import judge_case
from tests.consistency.builders import chain, evidence_of, observe, reference_of

INT8 = profile("int8")
FP32 = np.linspace(-1, 1, 64, dtype=np.float32)
NEAR = FP32 + np.float32(0.004)
LOSSY = FP32 + np.float32(0.4)


def run_of(device: np.ndarray, integer: np.ndarray) -> CaseVerdict:
    return judge_case(evidence_of(chain(device), chain(integer), name="int8"))


def columns(
    fp32: np.ndarray, integer: np.ndarray, device: np.ndarray, cpu: np.ndarray | None, ran_on: str = "npu"
) -> Quantisation:
    reference, seen = chain(fp32), chain(integer)
    lost = quantisation_column(INT8, reference_of(reference), {"l0": observe(seen[0], reference[0], 0.0)})
    ran, beside = run_of(device, integer), None if cpu is None else run_of(cpu, integer)
    added = output_column("backend", ran.status, ran.outputs, ran.reason)
    return weigh(lost, added, output_column("cpu", beside.status, beside.outputs) if beside else None, ran_on)


def states(told: Quantisation) -> dict[str, str]:
    return {column.name: column.status for column in told.columns}


def test_all_within_bounds_blames_nobody_and_tells_both_losses() -> None:
    told = columns(FP32, NEAR, NEAR, NEAR)
    assert (told.blame, states(told)) == ("none", {"quantisation": "within", "backend": "within", "cpu": "within"})
    assert told.reason.startswith("quantisation loses 0.004 at `l0`")
    assert "backend npu adds 0 at `l0`" in told.reason


def test_a_large_quantisation_loss_is_the_models() -> None:
    told = columns(FP32, LOSSY, LOSSY, LOSSY)
    assert (told.blame, states(told)["quantisation"], states(told)["backend"]) == ("model", "beyond", "within")
    assert "a property of the quantised model, not of this device or commit" in told.reason


def test_a_backend_whose_cpu_is_right_is_to_blame() -> None:
    told = columns(FP32, NEAR, LOSSY, NEAR)
    assert (told.blame, states(told)) == ("backend", {"quantisation": "within", "backend": "beyond", "cpu": "within"})
    assert "the same device's CPU backend is within bounds" in told.reason
    assert told.reason.endswith("so it is npu")


def test_a_loss_that_the_cpu_shares_is_not_the_backends() -> None:
    told = columns(FP32, NEAR, LOSSY, LOSSY)
    assert told.blame == "engine"
    assert "CPU backend is beyond bounds too" in told.reason


def test_where_the_cpu_ran_there_is_no_third_column() -> None:
    told = columns(FP32, NEAR, LOSSY, None, "cpu")
    assert (told.blame, list(states(told))) == ("engine", ["quantisation", "backend"])


def test_a_cpu_that_gave_no_answer_acquits_and_blames_nobody() -> None:
    within = Column("quantisation", "within", "y", 0.0)
    beyond, silent = Column("backend", "beyond", "y", 1.0), Column("cpu", "unknown", reason="it crashed")
    told = weigh(within, beyond, silent, "npu")
    assert (told.blame, "could not be asked (it crashed)" in told.reason) == ("unknown", True)


def test_models_with_other_outputs_are_not_compared() -> None:
    column = quantisation_column(INT8, reference_of(chain(FP32)), {})
    assert (column.status, column.reason) == ("unknown", "the two models do not have the same outputs")


def test_constant_tokens_on_the_npu_and_a_right_cpu_blame_the_npu() -> None:
    """Case A24: twenty decode steps, all token 0 on the NPU, while the same phone's CPU is right."""
    steps = np.arange(20, dtype=np.int64) * 7 % 11
    told = columns(steps, steps, np.zeros(20, np.int64), steps)
    assert (told.blame, states(told)["cpu"]) == ("backend", "within")


def test_another_rounding_of_few_codes_is_no_backend_loss_and_of_more_is() -> None:
    """Case A5: 80 of 51,200 int8 elements off by 1 is 0.15625 %; the profile takes 1 LSB in at most 1 %."""
    codes = np.arange(51200, dtype=np.int64).astype(np.int8)
    for count, blame in ((80, "none"), (600, "backend")):
        off = codes.copy()
        off[:count] ^= 1
        assert columns(codes, codes, off, codes).blame == blame


@settings(max_examples=25)
@given(st.floats(0, 1, width=32), st.floats(0, 1, width=32), st.floats(0, 1, width=32))
def test_each_column_depends_on_its_own_two_sides_alone(lost: float, added: float, beside: float) -> None:
    integer = FP32 + np.float32(lost)
    told = columns(FP32, integer, integer + np.float32(added), integer + np.float32(beside))
    other = columns(FP32, integer, integer, integer)
    assert told.columns[0] == other.columns[0], "quantisation loss has no device in it"
    distances = [column.max_abs for column in told.columns]
    assert distances == pytest.approx([lost, added, beside], abs=1e-5)
    assert (told.blame == "backend") == (states(told)["backend"] == "beyond" and states(told)["cpu"] == "within")
    assert told.blame != "model" or states(told)["backend"] == "within"


def inner(fp32: list[np.ndarray], integer: list[np.ndarray]) -> Column:
    """The quantisation column of a chain, every layer of which is in both models."""
    real, codes = chain(*fp32), chain(*integer)
    seen = {two.id: observe(two, one, 0.0) for one, two in zip(real, codes, strict=True)}
    return quantisation_column(INT8, reference_of(real), {real[-1].id: seen[real[-1].id]}, seen)


def test_the_layer_at_which_the_quantisation_loss_begins_is_named() -> None:
    column = inner([FP32] * 4, [NEAR, LOSSY, LOSSY, LOSSY])
    assert (column.status, column.first, column.compared) == ("beyond", ("l1",), 4)
    told = weigh(column, Column("backend", "within", "l3", 0.0), None, "cpu")
    assert told.reason.startswith("quantisation loses 0.4 at `l3`, ")
    assert ", first beyond bounds at `l1`; backend cpu adds 0 at `l3`: " in told.reason


def test_a_loss_inside_that_does_not_reach_the_outputs_is_told_and_decides_nothing() -> None:
    column = inner([FP32] * 3, [NEAR, LOSSY, NEAR])
    assert (column.status, column.first) == ("within", ("l1",))
    assert weigh(column, Column("backend", "within", "l2", 0.0), None, "cpu").blame == "none"


def test_layers_that_are_not_in_both_models_hide_the_beginning_no_further_than_themselves() -> None:
    real, codes = chain(FP32, FP32, FP32), chain(LOSSY, LOSSY, LOSSY)
    seen = {node.id: observe(node, real[0], 0.0) for node in codes}
    last = {"l2": seen["l2"]}
    assert quantisation_column(INT8, reference_of(real), last).first == ()
    column = quantisation_column(INT8, reference_of(real), last, {"l1": seen["l1"], "l2": seen["l2"]})
    assert (column.first, column.compared) == (("l1",), 2)


def test_the_layer_at_which_the_backend_loss_begins_is_the_devices_first_deviating_one() -> None:
    verdict = judge_case(evidence_of(chain(FP32, LOSSY, LOSSY), chain(FP32, FP32, FP32), name="int8"))
    column = backend_column(verdict)
    assert (column.status, column.first, column.compared) == ("beyond", ("l1",), 3)
    assert ", first beyond bounds at `l1`: " in weigh(Column("quantisation", "within"), column, None, "npu").reason
    assert backend_column(run_of(NEAR, NEAR)).first == ()


@settings(max_examples=25)
@given(st.integers(0, 5), st.integers(0, 5))
def test_two_losses_of_one_chain_each_begin_where_they_were_put(lost: int, added: int) -> None:
    integer = [LOSSY if place >= lost else FP32 for place in range(6)]
    device = [value + np.float32(0.7 if place >= added else 0) for place, value in enumerate(integer)]
    verdict = judge_case(evidence_of(chain(*device), chain(*integer), name="int8"))
    assert (inner([FP32] * 6, integer).first, backend_column(verdict).first) == ((f"l{lost}",), (f"l{added}",))
