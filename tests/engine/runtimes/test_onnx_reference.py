from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.contract.errors import ModelError
from engine.runtimes.onnx_reference import OUT_OF_TIME, run, version

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
LONG = 120.0


def model(*nodes: onnx.NodeProto, initial: tuple[onnx.TensorProto, ...] = ()) -> bytes:
    ends = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X.shape)]
    graph = helper.make_graph(list(nodes), "some", ends, [onnx.ValueInfoProto(name=nodes[-1].output[0])], list(initial))
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


NODES = (helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["b"]))


def test_the_layers_asked_for_are_those_of_the_whole_model() -> None:
    weight = numpy_helper.from_array(np.float32([[1], [2], [3], [4]]), "w")
    made = model(*NODES, helper.make_node("MatMul", ["b", "w"], ["y"]), initial=(weight,))
    found = run(made, {"x": X}, ["a", "y"], LONG)
    assert (sorted(found.tensors), dict(found.lacking)) == (["a", "y"], {})
    assert np.array_equal(found.tensors["a"], np.maximum(X, 0))
    whole = ReferenceEvaluator(onnx.load_model_from_string(made)).run(None, {"x": X})[0]
    assert np.array_equal(found.tensors["y"], whole)
    assert onnx.__version__ in version()


def test_an_operator_it_lacks_costs_what_depends_on_it_and_no_more() -> None:
    foreign = helper.make_node("Frob", ["a"], ["f"], domain="com.example")
    made = onnx.load_model_from_string(model(*NODES, foreign, helper.make_node("Neg", ["f"], ["y"])))
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    found = run(made.SerializeToString(), {"x": X}, ["b", "f", "y"], LONG)
    assert list(found.tensors) == ["b"]
    assert found.lacking["f"].startswith("ONNX's reference evaluator cannot do Frob: ")
    assert found.lacking["y"].startswith("it depends on `f`: ONNX's reference evaluator cannot do Frob")


def test_what_is_not_asked_for_is_not_computed() -> None:
    foreign = helper.make_node("Frob", ["a"], ["y"], domain="com.example")
    made = model(*NODES, foreign)
    assert dict(run(made, {"x": X}, ["b"], LONG).lacking) == {}


def test_an_input_that_is_not_given_is_named() -> None:
    assert run(model(*NODES), {}, ["a"], LONG).lacking == {"a": "`x` is not given"}


def test_when_its_time_is_up_it_says_so_and_nothing_of_it_stays() -> None:
    loops = [helper.make_node("Conv", ["big", "k"], ["c0"])]
    loops += [helper.make_node("Conv", ["c0" if i == 0 else f"c{i}", "k"], [f"c{i + 1}"]) for i in range(50)]
    kernel = numpy_helper.from_array(np.zeros((64, 64, 1, 1), np.float32), "k")
    big = numpy_helper.from_array(np.zeros((1, 64, 512, 512), np.float32), "big")
    made = model(helper.make_node("Relu", ["x"], ["a"]), *loops, initial=(kernel, big))
    started = time.monotonic()
    found = run(made, {"x": X}, ["a", "c50"], 0.2)
    assert time.monotonic() - started < LONG
    assert found.lacking["c50"] == f"{OUT_OF_TIME} (0.2 s)"


def test_an_evaluator_that_breaks_down_is_no_opinion_but_an_error_in_words() -> None:
    with pytest.raises(ModelError, match="reference evaluator ended early"):
        run(b"no model", {"x": X}, ["a"], LONG)
