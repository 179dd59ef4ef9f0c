"""ONNX's own node cases of the operators on integers and codes, with the outputs that ONNX says they have."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.models.export import export_refrt

#: Operators, and how many of their cases `refrt` computes; the others have types it lacks (float16 scales, float8, …).
COMPUTED = {"ConvInteger": 2, "DynamicQuantizeLinear": 3, "MatMulInteger": 1, "QLinearConv": 1, "QLinearMatMul": 4}


@dataclass(frozen=True)
class Case:
    """One call of ONNX's ``expect``."""

    node: onnx.NodeProto
    inputs: Sequence[np.ndarray]
    outputs: Sequence[np.ndarray]
    name: str


def cases(op: str, monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """What ONNX's file on ``op`` expects. The whole collection would be computed otherwise, which takes a minute."""
    module = importlib.import_module(f"onnx.backend.test.case.node.{op.lower()}")
    found: list[Case] = []

    def expect(node: onnx.NodeProto, inputs: Any, outputs: Any, name: str, **_: Any) -> None:
        found.append(Case(node, inputs, outputs, name))

    monkeypatch.setattr(module, "expect", expect)
    for name, member in inspect.getmembers(getattr(module, op), inspect.isfunction):
        if name.startswith("export"):
            member()
    return found


def model_of(case: Case) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray]]:
    """The case as a model, all its inputs fed."""
    feeds = {name: np.asarray(array) for name, array in zip(case.node.input, case.inputs, strict=True)}
    element = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(name, element(feed.dtype), feed.shape) for name, feed in feeds.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in case.node.output]
    graph = helper.make_graph([case.node], case.name, inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


@pytest.mark.parametrize("op", sorted(COMPUTED))
def test_the_outputs_are_those_that_onnx_expects(refrt, monkeypatch, op):
    computed = 0
    for case in cases(op, monkeypatch):
        if any(np.asarray(array).dtype.name not in ("uint8", "int8", "int32", "float32") for array in case.inputs):
            continue
        model, feeds = model_of(case)
        export_refrt(model, {}, refrt.folder / "m.refrt")
        answer = refrt.run(refrt.folder / "m.refrt", feeds)
        for name, want in zip(case.node.output, case.outputs, strict=True):
            got = answer.output(name)
            assert got.dtype == np.asarray(want).dtype
            np.testing.assert_array_equal(got, want, err_msg=f"{case.name} {name}")
        computed += 1
    assert computed == COMPUTED[op]
