import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.contract.errors import ModelError
from engine.runtimes.onnxruntime import run, version


def model(op: str = "Relu") -> bytes:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"])],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    return bytes(made.SerializeToString())


def test_wanted_tensors_come_in_order() -> None:
    proto = onnx.ModelProto.FromString(model())
    proto.graph.node.append(helper.make_node("Neg", ["y"], ["z"]))
    proto.graph.output.append(onnx.ValueInfoProto(name="z"))
    x = np.array([[-1, 0, 1], [2, -3, np.nan]], dtype=np.float32)
    z, y = run(proto.SerializeToString(), {"x": x}, ["z", "y"])
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    np.testing.assert_array_equal(z, -np.maximum(x, 0))


@pytest.mark.parametrize(
    ("data", "inputs", "words"),
    [
        (b"nonsense", {}, "cannot load the model"),
        (model("Frobnicate"), {}, "Frobnicate"),
        (model(), {}, "input 'x' is not given"),
        (model(), {"x": np.zeros((3, 3), np.float32)}, "cannot run the model"),
        (model(), {"x": np.zeros((2, 3), np.float64)}, "cannot run the model"),
        (model(), {"x": np.zeros((2, 3), np.float32), "extra": np.zeros(1)}, "cannot run the model"),
    ],
)
def test_what_cannot_be_run_is_a_model_error(data: bytes, inputs: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(ModelError) as caught:
        run(data, inputs, ["y"])
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_the_version_is_known() -> None:
    assert int(version().split(".")[0]) >= 1


def test_loading_it_leaves_nothing_in_the_users_home(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import engine.runtimes.onnxruntime"], env=environment, timeout=60, check=False
    )
    assert done.returncode == 0
    assert list(tmp_path.rglob("*")) == []
