"""Layers alone on given inputs: the kernels of the passes, the error a layer introduces and nothing it inherits."""

import json

import numpy as np
import onnx
import pytest

from engine.models.export import export_refrt
from engine.models.graph import graph_layers
from tests.engine.native.session.test_session import LAYERS, chain_model


@pytest.fixture
def chain(refrt):
    model = chain_model()
    export_refrt(model, {"x": (2, 3, 19, 19)}, refrt.folder / "chain.refrt")
    return model, refrt.folder / "chain.refrt"


@pytest.fixture
def feeds(noise) -> dict[str, np.ndarray]:
    return {"x": noise(2, 3, 19, 19, scale=1.0)}


def inputs_of(model: onnx.ModelProto) -> dict[str, tuple[str, ...]]:
    return {layer.id: layer.inputs for layer in graph_layers(model)}


def tensors_of(refrt, path, feeds) -> dict[str, np.ndarray]:
    answer = refrt.run(path, feeds, keep=tuple(LAYERS))
    return {**feeds, **{name: answer.tensor(name) for name in LAYERS}}


def alone(refrt, given, tensors):
    return {name: {source: refrt.tensor_file(source, tensors[source]) for source in given[name]} for name in given}


@pytest.mark.parametrize("threads", [1, 5])
def test_on_the_runs_own_tensors_every_layer_gives_the_runs_own_bits(refrt, chain, feeds, threads):
    model, path = chain
    tensors = tensors_of(refrt, path, feeds)
    orders = alone(refrt, inputs_of(model), tensors)
    result = refrt.run(path, feeds, isolated=orders, threads=threads).result
    passes = {layer.id: layer for layer in result.layers if not layer.isolated}
    single = {layer.id: layer for layer in result.layers if layer.isolated}
    assert list(single) == list(passes) == LAYERS
    assert {name: layer.digest for name, layer in single.items()} == {n: layer.digest for n, layer in passes.items()}


def test_what_is_given_counts_and_not_what_the_layer_before_computes(refrt, chain, feeds, noise):
    model, path = chain
    tensors = tensors_of(refrt, path, feeds)
    other = noise(*tensors["conv"].shape, scale=1.0)
    orders = alone(refrt, {"swish": ("norm",), "norm": ("conv",)}, {**tensors, "norm": other, "conv": other})
    answer = refrt.run(path, feeds, passes=(), isolated=orders, keep=("swish", "norm"))
    assert answer.result.passes == ()
    swish, norm = sorted(answer.result.layers, key=lambda layer: layer.id != "swish")
    got = np.frombuffer((answer.folder / swish.tensor).read_bytes(), np.float32).reshape(other.shape)
    np.testing.assert_allclose(got, other * np.clip(other / 6 + 0.5, 0, 1), rtol=0, atol=1e-6)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    gamma, beta, mean, variance = (constants[name].reshape(1, -1, 1, 1) for name in "gbmv")
    got = np.frombuffer((answer.folder / norm.tensor).read_bytes(), np.float32).reshape(other.shape)
    want = (other - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_statistics_are_of_the_layer_alone(refrt, chain, feeds):
    """Upstream noise reaches the layer in the pass and not when it runs alone on the golden's input."""
    _, path = chain
    tensors = tensors_of(refrt, path, feeds)
    noisy = {"x": feeds["x"] + np.float32(0.01)}
    orders = alone(refrt, {"pool": ("swish",)}, tensors)
    golden = {"pool": refrt.golden(tensors["pool"], 0.0)}
    layers = refrt.run(path, noisy, isolated=orders, golden=golden).result.layers
    inherited = next(layer for layer in layers if layer.id == "pool" and not layer.isolated)
    introduced = next(layer for layer in layers if layer.id == "pool" and layer.isolated)
    assert inherited.stats.max_abs > 0.0
    assert (introduced.stats.differing, introduced.stats.max_abs) == (0, 0.0)


def test_two_inputs_are_both_given(refrt, chain, feeds):
    _, path = chain
    tensors = tensors_of(refrt, path, feeds)
    given = {"swish": np.full_like(tensors["swish"], 3), "gate": np.full_like(tensors["gate"], 0.5)}
    orders = alone(refrt, {"scaled": ("swish", "gate")}, given)
    answer = refrt.run(path, feeds, passes=(), isolated=orders, keep=("scaled",))
    assert np.all(answer.tensor("scaled") == np.float32(1.5))


@pytest.mark.parametrize(
    ("isolated", "words"),
    [
        ({"absent": {}}, "request.isolated names layer absent, which the model lacks"),
        ({"pool": {}}, "isolated layer pool lacks its input swish"),
        ({"scaled": {"swish": "swish"}}, "isolated layer scaled lacks its input gate"),
        ({"pool": {"swish": "norm"}}, None),
        ({"pool": {"swish": "pool"}}, "input swish of isolated layer pool is float32[2,24,1,1]; the model has float32"),
        ({"rows": {"norm": "norm"}}, "isolated layer rows lacks its input scaled"),
        ({"conv": {"norm": "norm"}}, "isolated layer conv lacks its input x"),
    ],
)
def test_refusals_name_the_layer_and_the_input(refrt, chain, feeds, isolated, words):
    _, path = chain
    tensors = tensors_of(refrt, path, feeds)
    orders = {n: {k: refrt.tensor_file(k, tensors[v]) for k, v in given.items()} for n, given in isolated.items()}
    done = refrt.send(refrt.request(path, feeds, isolated=orders).to_json())
    assert done.returncode == (0 if words is None else 2)
    if words:
        assert words in done.stderr


def test_a_file_of_the_wrong_size_is_refused(refrt, chain, feeds):
    _, path = chain
    tensors = tensors_of(refrt, path, feeds)
    document = json.loads(refrt.request(path, feeds, isolated=alone(refrt, {"pool": ("swish",)}, tensors)).to_json())
    document["isolated"]["pool"]["swish"]["path"] = "request.json"
    done = refrt.send(json.dumps(document))
    assert done.returncode == 2
    assert "request.json holds" in done.stderr


def test_captured_layers_alone_are_listed(refrt, chain, feeds):
    result = refrt.run(chain[1], feeds, capture=("norm", "gate")).result
    assert [layer.id for layer in result.layers] == ["norm", "gate"]
    assert len({entry.outputs["y"] for entry in result.passes}) == 1
    refused = refrt.send(refrt.request(chain[1], feeds, capture=("absent",)).to_json())
    assert (refused.returncode, "request.capture names layer absent" in refused.stderr) == (2, True)
