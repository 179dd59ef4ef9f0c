import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from engine.models.export import export_refrt
from engine.models.flatfile import FlatLayer, FlatModel, FlatNode, FlatTensor, write_flat

# A sum of k products is off by at most k roundings, each of the size of the largest partial sum.
CLOSE = {"rtol": 1e-5, "atol": 2e-5}


def run_both(refrt, model: onnx.ModelProto, feeds: dict[str, np.ndarray], name: str = "y") -> tuple[np.ndarray, ...]:
    """Ours and ONNX Runtime's, which knows every combination of groups, dilations and strides."""
    export_refrt(model, {}, refrt.folder / "model.refrt")
    got = refrt.run(refrt.folder / "model.refrt", feeds).output(name)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (want,) = session.run([name], feeds)
    return got, want


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 3, 31, 29), (16, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 5, 127, 3), (7, 5, 1, 1), {}),
        ((1, 6, 9, 10), (4, 3, 3, 2), {"group": 2, "pads": [1, 0, 2, 1]}),
        ((1, 4, 14, 14), (4, 1, 5, 5), {"group": 4, "pads": [2, 2, 2, 2]}),
        ((1, 4, 15, 17), (8, 1, 3, 3), {"group": 4, "strides": [2, 1], "pads": [1, 1, 1, 1]}),
        ((1, 2, 13, 12), (3, 2, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
        ((3, 129, 4), (128, 129, 3), {"pads": [1, 1]}),
        ((5, 1, 640), (34, 1, 256), {"strides": [128]}),
        ((2, 4, 7), (6, 2, 3), {"group": 2, "dilations": [2], "strides": [2]}),
        ((1, 3, 8, 9), (2, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((1, 3, 8, 9), (2, 3, 4, 2), {"auto_pad": "SAME_LOWER"}),
        ((1, 3, 8, 9), (2, 3, 3, 3), {"auto_pad": "VALID"}),
        ((0, 3, 8, 9), (2, 3, 3, 3), {}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_against_onnx_runtime(refrt, one_node, noise, x, w, attributes, bias):
    constants = {"b": noise(*w, scale=0.3)} | ({"c": noise(w[0])} if bias else {})
    feeds = {"a": noise(*x, scale=1.0)}
    got, want = run_both(refrt, one_node("Conv", feeds, constants, **attributes), feeds)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, **CLOSE)


def fused_model(noise) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["conv", "scale", "b", "mean", "var"], ["norm"]),
        helper.make_node("HardSwish", ["norm"], ["y"]),
    ]
    constants = {"w": noise(5, 3, 3, 3), "scale": noise(5), "b": noise(5), "mean": noise(5), "var": noise(5) ** 2}
    graph = helper.make_graph(
        nodes,
        "fused",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 7, 11))],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_stages_behind_it_are_seen_one_by_one(refrt, noise):
    """Fused or alone, each stage gives its ONNX value, and looking changes no bit of the output."""
    model = fused_model(noise)
    feeds = {"x": noise(1, 3, 7, 11)}
    export_refrt(model, {}, refrt.folder / "model.refrt")
    answer = refrt.run(refrt.folder / "model.refrt", feeds, keep=("conv", "norm", "y"))
    _, want = run_both(refrt, model, feeds)
    np.testing.assert_allclose(answer.tensor("y"), want, rtol=1e-4, atol=1e-4)
    norm = answer.tensor("norm")
    line = np.float32(norm * np.float32(1 / 6)) + np.float32(0.5)
    np.testing.assert_array_equal(answer.tensor("y"), norm * np.clip(line, 0, 1).astype(np.float32))
    plain, instrumented = (done.outputs["y"] for done in answer.result.passes)
    assert plain == instrumented == answer.layer("y").digest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"group": [0]}, "channels do not fit the groups"),
        ({"group": [2]}, "channels do not fit the groups"),
        ({"strides": [0, 1]}, "a step is not positive"),
        ({"strides": [2, 1]}, "the output has other dimensions"),
        ({"dilations": [1, 1 << 21]}, "a step is too large"),
        ({"pads": [-1, 0, 0, 0]}, "negative padding"),
        ({"pads": [1 << 21, 0, 0, 0]}, "too much padding"),
        ({"pads": [0, 0]}, "attribute pads has the wrong type or length"),
        ({"kernel_shape": [3, 2]}, "kernel_shape differs from the weights"),
    ],
)
def test_a_bad_attribute_is_refused_in_words(refrt, noise, changes, words):
    attributes = {"group": [1], "strides": [1, 1], "pads": [0, 0, 0, 0]} | changes
    tensors = (
        FlatTensor("x", "float32", (1, 2, 6, 6)),
        FlatTensor("w", "float32", (2, 2, 3, 3), data=noise(2, 2, 3, 3)),
        FlatTensor("y", "float32", (1, 2, 4, 4)),
    )
    node = FlatNode("Conv", "bad", (0, 1), (2,), attributes)
    write_flat(FlatModel(tensors, (node,), (FlatLayer("y", "Conv", 2, 0),), (0,), (2,)), refrt.folder / "model.refrt")
    done = refrt.send(refrt.request(refrt.folder / "model.refrt", {"x": noise(1, 2, 6, 6)}).to_json())
    assert done.returncode == 2
    assert words in done.stderr
    assert not (refrt.folder / "out" / "result.json").exists()
