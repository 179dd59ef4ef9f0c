"""Whole models as ONNX Runtime quantises them, in QOperator form and dynamically, beside the reference evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

from engine.models.export import export_refrt
from engine.runtimes import onnx_reference

X = {"x": np.random.default_rng(5).standard_normal((1, 2, 8, 8)).astype(np.float32)}


class Calibration(quantization.CalibrationDataReader):
    """The one input, once."""

    def __init__(self) -> None:
        self.left = [X]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def fp32(path: Path) -> Path:
    """x [1, 2, 8, 8] → Conv with bias → Relu → Reshape → MatMul → y [1, 5]."""
    generator = np.random.default_rng(3)
    shapes = {"w": (6, 2, 3, 3), "b": (6,), "m": (384, 5)}
    initial = [numpy_helper.from_array(generator.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    initial.append(numpy_helper.from_array(np.array([1, 384]), "flat_shape"))
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("Reshape", ["relu", "flat_shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "m"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, 8, 8]), ("y", [1, 5]))]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def qoperator(source: Path, target: Path) -> None:
    form = quantization.QuantFormat.QOperator
    quantization.quantize_static(
        source, target, Calibration(), quant_format=form, op_types_to_quantize=["Conv", "MatMul"]
    )


def dynamic(source: Path, target: Path) -> None:
    quantization.quantize_dynamic(source, target, op_types_to_quantize=["Conv", "MatMul"])


@pytest.mark.parametrize(
    ("quantise", "expected"),
    [
        (qoperator, {"QuantizeLinear", "QLinearConv", "QLinearMatMul", "DequantizeLinear"}),
        (dynamic, {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "Cast"}),
    ],
)
def test_every_layer_is_that_of_the_reference_evaluator(refrt, tmp_path, quantise, expected):
    quantise(fp32(tmp_path / "fp32.onnx"), tmp_path / "int8.onnx")
    model = onnx.load(tmp_path / "int8.onnx")
    assert expected <= {node.op_type for node in model.graph.node}
    export_refrt(model, {}, refrt.folder / "m.refrt")
    ids = [layer.id for layer in refrt.run(refrt.folder / "m.refrt", X).result.layers]
    answer = refrt.run(refrt.folder / "m.refrt", X, keep=tuple(ids))
    found = onnx_reference.run(model.SerializeToString(), X, ids, seconds=60)
    assert not found.lacking
    for layer in ids:
        np.testing.assert_allclose(answer.tensor(layer), found.tensors[layer], rtol=1e-6, atol=1e-6, err_msg=layer)
