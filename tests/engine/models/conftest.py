from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.models.fetch import FetchedSuite, fetch_suite
from engine.places import cache_root
from farm.suites import Suite, load_suite

SUITES = Path(__file__).parents[3] / "suites"


@dataclass(frozen=True)
class Smoke:
    suite: Suite
    fetched: FetchedSuite

    def inputs(self, case_id: str) -> dict[str, np.ndarray]:
        prepared = self.suite.prepare(self.suite.case(case_id), self.fetched.files, cache_root())
        return {name: entry.array() for name, entry in prepared.items()}

    def model(self, case_id: str) -> Path:
        return self.fetched.models[self.suite.case(case_id).model]


@pytest.fixture(scope="session")
def smoke() -> Smoke:
    suite = load_suite(SUITES / "smoke.yaml")
    return Smoke(suite, fetch_suite(suite.model_files, suite.input_files, cache_root(), lambda _: None))


@pytest.fixture
def small_model() -> onnx.ModelProto:
    """x [1, 2, 4, 4] → Conv (pads, bias) → Relu → Reshape by a Shape chain → MatMul → Add (constant) → y."""
    generator = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("Shape", ["relu"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "one"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["flat_shape"], axis=0),
        helper.make_node("Reshape", ["relu", "flat_shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "m"], ["matmul"]),
        helper.make_node("Add", ["matmul", "shift"], ["y"]),
    ]
    initial = [
        weights("w", 3, 2, 3, 3),
        weights("b", 3),
        weights("m", 48, 2),
        weights("shift", 2),
        numpy_helper.from_array(np.array([0], dtype=np.int64), "zero"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "one"),
        numpy_helper.from_array(np.array([-1], dtype=np.int64), "rest"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        initial,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def small_inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(4).standard_normal((1, 2, 4, 4)).astype(np.float32)}


@pytest.fixture
def small_path(tmp_path: Path, small_model: onnx.ModelProto) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_model.SerializeToString())
    return path
