"""Whole graphs: every layer observed, plain and instrumented the same bits, whatever the threads and iterations."""

import numpy as np
import onnx
import pytest
import xxhash
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.models.export import export_refrt


def chain_model(channels: int = 24, size: int = 19) -> onnx.ModelProto:
    """Conv, BatchNormalization, HardSwish, a squeeze-and-excite gate with an Identity inside, then MatMul and Add."""
    random = np.random.default_rng(1)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array((0.3 * random.standard_normal(shape)).astype(np.float32), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["conv"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["conv", "g", "b", "m", "v"], ["norm"]),
        node("HardSwish", ["norm"], ["swish"]),
        node("GlobalAveragePool", ["swish"], ["pool"]),
        node("Conv", ["pool", "w1"], ["squeeze"]),
        node("Add", ["squeeze", "bias"], ["sum"]),
        node("Identity", ["sum"], ["same"]),
        node("HardSigmoid", ["same"], ["gate"], alpha=0.2, beta=0.5),
        node("Mul", ["swish", "gate"], ["scaled"]),
        node("Reshape", ["scaled", "flat"], ["rows"]),
        node("MatMul", ["rows", "w2"], ["product"]),
        node("Add", ["product", "w3"], ["y"]),
    ]
    half = (size + 1) // 2
    initial = [
        weights("w0", channels, 3, 3, 3),
        weights("w1", channels, channels, 1, 1),
        weights("bias", 1, channels, 1, 1),
        weights("w2", channels * half * half, 5),
        weights("w3", 5),
        *(weights(name, channels) for name in "gbm"),
        numpy_helper.from_array(random.uniform(0.5, 2, channels).astype(np.float32), "v"),
        numpy_helper.from_array(np.array([0, -1], dtype=np.int64), "flat"),
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        initial,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


LAYERS = ["conv", "norm", "swish", "pool", "squeeze", "sum", "same", "gate", "scaled", "rows", "product", "y"]


@pytest.fixture
def chain(refrt):
    model = chain_model()
    export_refrt(model, {"x": (2, 3, 19, 19)}, refrt.folder / "chain.refrt")
    return model, refrt.folder / "chain.refrt"


@pytest.fixture
def feeds(noise) -> dict[str, np.ndarray]:
    return {"x": noise(2, 3, 19, 19, scale=1.0)}


def test_every_layer_is_there_and_right(refrt, chain, feeds):
    model, path = chain
    answer = refrt.run(path, feeds, keep=tuple(LAYERS))
    assert [layer.id for layer in answer.result.layers] == LAYERS
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in LAYERS)
    for name, want in zip(LAYERS, ReferenceEvaluator(exposed).run(None, feeds), strict=True):
        np.testing.assert_allclose(answer.tensor(name), want, rtol=0, atol=1e-5 * np.abs(want).max(), err_msg=name)


def test_digests_are_those_of_the_kept_tensors(refrt, chain, feeds):
    answer = refrt.run(chain[1], feeds, keep=tuple(LAYERS))
    for layer in answer.result.layers:
        data = (answer.folder / layer.tensor).read_bytes()
        assert layer.digest == xxhash.xxh3_128_hexdigest(data), layer.id


def test_plain_and_instrumented_give_the_same_bits(refrt, chain, feeds):
    answer = refrt.run(chain[1], feeds, iterations=3)
    kinds = [(one.kind, one.iteration) for one in answer.result.passes]
    assert kinds == [(kind, i) for kind in ("plain", "instrumented") for i in range(3)]
    assert len({one.outputs["y"] for one in answer.result.passes}) == 1
    assert answer.layer("y").digest == answer.result.passes[0].outputs["y"] == answer.result.outputs[0].digest


def test_bits_do_not_depend_on_threads(refrt, chain, feeds):
    one, many = (refrt.run(chain[1], feeds, threads=threads).result for threads in (1, 5))
    assert many.effective.threads == 5
    assert [layer.digest for layer in one.layers] == [layer.digest for layer in many.layers]
    assert one.passes[0].outputs == many.passes[0].outputs


def test_views_share_the_digest_of_their_source(refrt, chain, feeds):
    answer = refrt.run(chain[1], feeds)
    assert answer.layer("same").digest == answer.layer("sum").digest
    assert answer.layer("rows").digest == answer.layer("scaled").digest
    assert answer.layer("rows").shape == (2, 24 * 10 * 10)


def test_a_poisoned_input_is_counted_in_every_layer_it_reaches(refrt, chain, feeds):
    poisoned = {"x": feeds["x"].copy()}
    poisoned["x"][1, 0, 0, 0] = np.nan
    answer = refrt.run(chain[1], poisoned, keep=("conv", "gate"))
    assert answer.layer("conv").nonfinite.nan == np.isnan(answer.tensor("conv")).sum() == 24
    assert answer.layer("gate").nonfinite.nan == 24  # the second image only
    assert not np.isnan(answer.output("y")[0]).any()
    assert np.isnan(answer.output("y")[1]).all()
    bits = np.unique(answer.output("y")[1].view(np.uint32))
    assert bits.tolist() == [0x7FC00000]


def test_instrumented_alone_gives_outputs_too(refrt, chain, feeds):
    answer = refrt.run(chain[1], feeds, passes=("instrumented",))
    assert answer.output("y").shape == (2, 5)


def test_plain_alone_has_no_layers(refrt, chain, feeds):
    assert refrt.run(chain[1], feeds, passes=("plain",)).result.layers == ()


def test_the_result_is_small(refrt, chain, feeds):
    answer = refrt.run(chain[1], feeds)
    assert (answer.folder / "result.json").stat().st_size < 180 * len(LAYERS) + 700
