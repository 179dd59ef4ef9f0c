from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from engine.contract.errors import UsageError
from engine.models.golden import golden_trace
from engine.models.graph import read_model
from engine.models.mutate import kinds, mutate, parse_injection, valid_targets

KINDS = [
    "dead_channel",
    "drop_bias",
    "flipped_sign",
    "half_weights",
    "nan",
    "scale_weights",
    "shifted_weights",
    "swap_channels",
    "transposed_weights",
    "wrong_activation",
    "wrong_epsilon",
    "wrong_padding",
]


def first_deviating(path: Path, broken: onnx.ModelProto, inputs: dict[str, np.ndarray], folder: Path) -> list[str]:
    """Layers that deviate though none of their inputs does."""
    broken_path = folder / "broken.onnx"
    broken_path.write_bytes(broken.SerializeToString())
    good, bad = golden_trace(path, inputs, folder), golden_trace(broken_path, inputs, folder / "broken")
    assert [layer.id for layer in good.layers] == [layer.id for layer in bad.layers]
    assert [layer.shape for layer in good.layers] == [layer.shape for layer in bad.layers]
    pairs = zip(good.layers, bad.layers, strict=True)
    differing = {layer.id for layer, other in pairs if layer.digest != other.digest}
    return [layer.id for layer in good.layers if layer.id in differing and not differing & set(layer.inputs)]


def normalised(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with a normalisation in place of its Relu; one of its variances is small."""
    for name, values in {"scale": [1, 2, 3], "offset": [0, 1, 2], "mean": [0, 0, 1], "variance": [1, 1e-4, 2]}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(values, dtype=np.float32), name))
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type = "BatchNormalization"
    relu.input.extend(["scale", "offset", "mean", "variance"])
    return model


def test_kinds_are_found_by_file_name() -> None:
    assert list(kinds()) == KINDS
    for name, fault in kinds().items():
        assert (fault.__doc__ or "").startswith(f"{name}: ")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_breaks_the_named_layer_first(
    kind: str, small_model: onnx.ModelProto, small_path: Path, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if kind == "wrong_epsilon":
        small_model = normalised(small_model)
        small_path.write_bytes(small_model.SerializeToString())
    before = small_model.SerializeToString()
    targets = valid_targets(small_model)[kind]
    assert targets
    for layer in targets:
        broken = mutate(small_model, kind, layer)
        assert first_deviating(small_path, broken, small_inputs, tmp_path / layer) == [layer]
    assert small_model.SerializeToString() == before


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path) -> None:
    for layer in ("conv", "relu", "matmul", "y", "broken"):
        (tmp_path / layer).mkdir(exist_ok=True)


@pytest.mark.parametrize(
    ("case_id", "layer"),
    [
        ("orientation-0", "scale_weights@p2o.pd_op.conv2d.5.0"),
        ("orientation-0", "drop_bias@p2o.pd_op.batch_norm_.13.0"),
        ("orientation-0", "drop_bias@Add.3"),
        ("orientation-0", "swap_channels@p2o.pd_op.depthwise_conv2d.7.0"),
        ("orientation-0", "nan@p2o.pd_op.matmul.0.0"),
        ("orientation-0", "wrong_padding@p2o.pd_op.conv2d.0.0"),
        ("orientation-0", "wrong_epsilon@p2o.pd_op.batch_norm_.13.0"),
        ("orientation-0", "half_weights@p2o.pd_op.conv2d.5.0"),
        ("orientation-0", "transposed_weights@p2o.pd_op.depthwise_conv2d.7.0"),
        ("orientation-0", "flipped_sign@Add.3"),
        ("vad-speech", "scale_weights@/stft/Conv_output_0"),
        ("vad-speech", "drop_bias@/encoder.1/Conv_output_0"),
        ("vad-speech", "swap_channels@/encoder.0/Conv_output_0"),
        ("vad-speech", "nan@/encoder.3/Conv_output_0"),
        ("vad-speech", "wrong_padding@/stft/padding/Pad_output_0"),
        ("vad-speech", "dead_channel@/encoder.0/Conv_output_0"),
        ("vad-speech", "shifted_weights@/encoder.2/Conv_output_0"),
        ("vad-speech", "wrong_activation@/Relu_3_output_0"),
    ],
)
def test_the_smoke_models_deviate_first_where_they_are_broken(smoke, case_id: str, layer: str, tmp_path: Path) -> None:
    kind, name = parse_injection(layer)
    broken = mutate(read_model(smoke.model(case_id)), kind, name)
    assert first_deviating(smoke.model(case_id), broken, smoke.inputs(case_id), tmp_path) == [name]


def test_a_broken_lstm_deviates_in_all_its_outputs(smoke, tmp_path: Path) -> None:
    broken = mutate(read_model(smoke.model("vad-speech")), "drop_bias", "/recurrent/LSTM_output_0")
    first = first_deviating(smoke.model("vad-speech"), broken, smoke.inputs("vad-speech"), tmp_path)
    assert first == ["/recurrent/LSTM_output_0", "hn", "cn"]


def test_weights_shared_with_another_layer_stay_whole(
    small_model: onnx.ModelProto, small_path: Path, small_inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    twin = onnx.NodeProto()
    twin.CopyFrom(small_model.graph.node[0])
    twin.output[0] = "twin"
    small_model.graph.node.insert(0, twin)
    small_model.graph.output.append(onnx.helper.make_tensor_value_info("twin", onnx.TensorProto.FLOAT, ["n", 3, 4, 4]))
    small_path.write_bytes(small_model.SerializeToString())
    broken = mutate(small_model, "scale_weights", "conv")
    assert first_deviating(small_path, broken, small_inputs, tmp_path) == ["conv"]


def test_a_kind_that_does_not_apply_lists_where_it_does(small_model: onnx.ModelProto, smoke) -> None:
    with pytest.raises(UsageError) as caught:
        mutate(small_model, "wrong_padding", "matmul")
    assert "wrong_padding does not apply to that MatMul layer" in caught.value.message
    assert caught.value.hint == "wrong_padding applies to 1 layers: conv"
    assert caught.value.exit_code == 2
    model = read_model(smoke.model("orientation-0"))
    with pytest.raises(UsageError) as caught:
        mutate(model, "scale_weights", "p2o.pd_op.conv2d.55.0")
    assert "no such layer" in caught.value.message
    assert "60 layers: p2o.pd_op.conv2d.5.0, " in caught.value.hint
    assert caught.value.hint.endswith("and 48 more")


@pytest.mark.parametrize(
    ("layer", "words"),
    [("hn", "name its first output, '/recurrent/LSTM_output_0'"), ("/Constant_output_0", "constant")],
)
def test_a_layer_that_cannot_be_first_says_why(smoke, layer: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mutate(read_model(smoke.model("vad-speech")), "scale_weights", layer)


def test_a_layer_that_feeds_no_output_cannot_be_broken(small_model: onnx.ModelProto) -> None:
    twin = onnx.NodeProto()
    twin.CopyFrom(small_model.graph.node[0])
    twin.output[0] = "nowhere"
    small_model.graph.node.insert(0, twin)
    with pytest.raises(UsageError, match="feeds no output"):
        mutate(small_model, "scale_weights", "nowhere")


def test_a_bias_of_zeros_cannot_be_dropped(small_model: onnx.ModelProto) -> None:
    bias = small_model.graph.initializer[1]
    bias.raw_data = bytes(len(bias.raw_data))
    assert valid_targets(small_model)["drop_bias"] == ["y"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nan", "not KIND@LAYER"),
        ("nan@", "not KIND@LAYER"),
        ("scale_weight@conv", "unknown kind of fault 'scale_weight'"),
    ],
)
def test_an_injection_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_injection(text)
    assert "swap_channels" in caught.value.hint


def test_a_layer_name_may_hold_an_at_sign() -> None:
    assert parse_injection("nan@a@b") == ("nan", "a@b")
