"""The three columns of a quantised case from real traces; the jobs are made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from ci import columns as columns_module
from ci.columns import Columns, lost_by_quantisation
from consistency.records import CaseVerdict, Quantisation
from consistency.verdict import judge_case
from engine.models.golden import golden_trace
from engine.models.quantise import Recipe, quantised_model
from engine.models.tasks import check_tasks
from farm.suitetasks import TaskEntry
from tests.consistency.builders import chain, evidence_of
from tests.engine.models.conftest import small_model

X = {"x": np.random.default_rng(5).standard_normal((1, 2, 4, 4)).astype(np.float32)}

__all__ = ["small_model"]


@pytest.fixture
def prepared(small_model: onnx.ModelProto, tmp_path: Path) -> Any:
    """A case of the small model, quantised, with both goldens; its task asks for the label that is not the largest."""
    path = tmp_path / "m.onnx"
    path.write_bytes(small_model.SerializeToString())
    fp32 = golden_trace(path, X, tmp_path)
    golden = golden_trace(quantised_model(path, [X], Recipe(), tmp_path), X, tmp_path)
    label = "ab"[int(np.argmin(golden.tensor(golden.finals[0])))]
    task = TaskEntry.model_validate({"argmax": {"output": "y", "label": label, "labels": ["a", "b"]}})
    return SimpleNamespace(golden=golden, fp32=fp32, case=SimpleNamespace(id="small", checks=lambda: (task.task(),)))


def verdict(offset: float) -> CaseVerdict:
    integer = np.linspace(1, 2, 8, dtype=np.float32)
    return judge_case(evidence_of(chain(integer + np.float32(offset)), chain(integer), name="int8"))


def job(asked: str, got: str, **changes: Any) -> Any:
    answer = {"requested": {"backend": asked}, "effective": {"backend": got}}
    return SimpleNamespace(**{"result": answer, "error": None, **changes})


def told(prepared: Any, cpu: Any, own: float = 0.9, beside: float = 0.0, got: str = "npu") -> Quantisation:
    head = job("npu", got)
    return Columns().of(prepared, prepared.fp32, verdict(own), head, cpu, lambda _: verdict(beside))


def test_the_loss_of_the_quantised_model_is_measured_against_fp32(prepared: Any) -> None:
    column = told(prepared, None, own=0.0).columns[0]
    (integer,), (real,) = prepared.golden.finals, prepared.fp32.finals
    distance = np.abs(prepared.golden.tensor(integer) - prepared.fp32.tensor(real)).max()
    assert (column.name, column.layer) == ("quantisation", "y")
    assert column.max_abs == pytest.approx(float(distance), rel=1e-5)


def test_the_cpu_of_the_same_device_tells_the_backend_from_the_engine(prepared: Any) -> None:
    assert told(prepared, job("cpu", "cpu")).blame == "backend"
    assert told(prepared, job("cpu", "cpu"), beside=0.9).blame == "engine"


def test_a_cpu_job_that_ran_elsewhere_or_not_at_all_proves_nothing(prepared: Any) -> None:
    elsewhere = told(prepared, job("cpu", "npu"))
    assert (elsewhere.blame, elsewhere.columns[2].reason) == (
        "unknown",
        "asked for the CPU backend, the runner used npu",
    )
    silent = told(prepared, job("cpu", "cpu", result=None, error=SimpleNamespace(message="it is gone")))
    assert (silent.blame, silent.columns[2].status) == ("unknown", "unknown")
    assert "it is gone" in silent.reason


def test_a_backend_that_fell_back_to_the_cpu_is_named_as_what_ran(prepared: Any) -> None:
    assert "backend cpu (asked for npu) adds" in told(prepared, None, got="cpu").reason


def test_a_task_that_the_integer_reference_fails_was_lost_by_quantisation(prepared: Any) -> None:
    golden = prepared.golden
    (task,) = check_tasks(prepared.case.checks(), {"y": golden.tensor(golden.finals[0])})
    assert lost_by_quantisation(prepared, task.name)
    assert not lost_by_quantisation(prepared, "another task")


def test_every_layer_that_is_in_both_models_is_compared_and_none_of_a_healthy_recipe_is_beyond(prepared: Any) -> None:
    """Conv, Relu, Reshape, MatMul and Add: what is read through codes by what the codes give back."""
    column = told(prepared, None, own=0.0).columns[0]
    assert (column.first, column.compared) == ((), len(prepared.fp32.layers))


def test_a_range_that_is_too_narrow_is_told_at_the_very_layer_whose_codes_it_clips(
    small_model: onnx.ModelProto, tmp_path: Path
) -> None:
    """Calibrated on inputs a quarter as large; without the codes' own pairing it would be told at the MatMul behind."""
    path = tmp_path / "m.onnx"
    path.write_bytes(small_model.SerializeToString())
    fp32 = golden_trace(path, X, tmp_path)
    narrow = quantised_model(path, [{"x": X["x"] / 4}], Recipe(operators=("MatMul",)), tmp_path)
    golden = golden_trace(narrow, X, tmp_path)
    case = SimpleNamespace(golden=golden, fp32=fp32, case=SimpleNamespace(id="narrow"))
    column = told(case, None, own=0.0).columns[0]
    (clipped,) = column.first
    assert clipped in ("relu", "flat"), "its values are right; the codes that MatMul reads are not"
    assert np.array_equal(golden.tensor(golden.by_id()[clipped]), fp32.tensor(fp32.by_id()[clipped]))


def test_the_loss_of_quantisation_is_measured_once_for_all_devices(
    prepared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, measured = Columns(), []
    one = columns_module._lost
    monkeypatch.setattr(columns_module, "_lost", lambda *args: measured.append(args) or one(*args))
    for own in (0.0, 0.9):
        columns.of(prepared, prepared.fp32, verdict(own), job("npu", "npu"), None, lambda _: verdict(0.0))
    assert len(measured) == 1
