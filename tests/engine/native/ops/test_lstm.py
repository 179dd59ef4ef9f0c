from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from engine.contract.errors import UnsupportedError
from engine.models.export import export_refrt

OUTPUTS = ("y", "h", "c")


def make_model(feeds: dict[str, np.ndarray], constants: dict[str, np.ndarray], hidden: int, **attributes: object):
    """Inputs x, w, r, bias, (sequence_lens), h0, c0: those that are neither fed nor constant are absent."""
    present = {*feeds, *constants}
    order = [name if name in present else "" for name in ("x", "w", "r", "bias", "lens", "h0", "c0", "p")]
    while not order[-1]:
        order.pop()
    node = helper.make_node("LSTM", order, list(OUTPUTS), hidden_size=hidden, **attributes)
    element = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(name, element(feed.dtype), feed.shape) for name, feed in feeds.items()]
    initial = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "lstm", inputs, [onnx.ValueInfoProto(name=name) for name in OUTPUTS], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def weights(noise, directions: int, inputs: int, hidden: int, bias: bool) -> dict[str, np.ndarray]:
    constants = {
        "w": noise(directions, 4 * hidden, inputs, scale=0.4),
        "r": noise(directions, 4 * hidden, hidden, scale=0.3),
    }
    return constants | ({"bias": noise(directions, 8 * hidden, scale=0.5)} if bias else {})


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("steps", "batch", "inputs", "hidden"), [(7, 1, 24, 128), (5, 3, 7, 5), (1, 2, 1, 1)])
@pytest.mark.parametrize("optional", [False, True])
def test_against_onnx_runtime(refrt, noise, direction, steps, batch, inputs, hidden, optional):
    directions = 2 if direction == "bidirectional" else 1
    feeds = {"x": noise(steps, batch, inputs, scale=1.0)}
    if optional:
        feeds |= {"h0": noise(directions, batch, hidden, scale=0.5), "c0": noise(directions, batch, hidden, scale=0.7)}
    model = make_model(feeds, weights(noise, directions, inputs, hidden, optional), hidden, direction=direction)
    export_refrt(model, {}, refrt.folder / "model.refrt")
    answer = refrt.run(refrt.folder / "model.refrt", feeds)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, want in zip(OUTPUTS, session.run(list(OUTPUTS), feeds), strict=True):
        got = answer.output(name)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_last_step_is_the_final_state(refrt, noise):
    feeds = {"x": noise(4, 2, 3)}
    export_refrt(make_model(feeds, weights(noise, 1, 3, 6, True), 6), {}, refrt.folder / "model.refrt")
    answer = refrt.run(refrt.folder / "model.refrt", feeds)
    np.testing.assert_array_equal(answer.output("y")[-1], answer.output("h"))


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({"clip": 3.0}, "clip"),
        ({"input_forget": 1}, "input_forget"),
        ({"activations": ["Sigmoid", "Tanh", "Relu"]}, "activations"),
    ],
)
def test_other_formulas_are_refused_by_the_exporter(refrt, noise, attributes, word):
    model = make_model({"x": noise(4, 2, 3)}, weights(noise, 1, 3, 6, False), 6, **attributes)
    with pytest.raises(UnsupportedError, match=word):
        export_refrt(model, {}, refrt.folder / "model.refrt")


@pytest.mark.parametrize(
    ("constants", "attributes", "word"),
    [
        ({}, {"layout": 1}, "attribute layout"),
        ({"p": np.ones((1, 18), dtype=np.float32)}, {}, "peepholes"),
        ({"lens": np.array([4, 4], dtype=np.int32)}, {}, "sequence_lens"),
    ],
)
def test_other_inputs_are_refused_by_the_runner(refrt, noise, constants, attributes, word):
    feeds = {"x": noise(4, 2, 3)}
    model = make_model(feeds, weights(noise, 1, 3, 6, False) | constants, 6, **attributes)
    export_refrt(model, {}, refrt.folder / "model.refrt")
    done = refrt.send(refrt.request(refrt.folder / "model.refrt", feeds).to_json())
    assert done.returncode == 3
    assert word in done.stderr
