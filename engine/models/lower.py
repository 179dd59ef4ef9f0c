"""From an ONNX node to what `refrt` executes: attributes resolved, parameters computed, or a plain view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx

from engine.contract.errors import ModelError, UnsupportedError
from engine.models.lowered import LoweredNode, Source
from engine.models.shapes import StaticGraph, describe


def lower(node: onnx.NodeProto, graph: StaticGraph) -> LoweredNode:
    """Lower one node. ``UnsupportedError`` names the operator and the node."""
    function = LOWERINGS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if function is None:
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        raise UnsupportedError(
            f"refrt has no operator {name}, needed by {describe(node)}",
            hint="add it to engine/native/ops and engine/models/lower.py, or test this model with another engine",
        )
    if node.op_type not in TYPELESS:
        _refuse_other_types(node, graph)
    try:
        return function(Source(node, graph))
    except IndexError as error:
        raise ModelError(f"{describe(node)} lacks an input or an output") from error


def _refuse_other_types(node: onnx.NodeProto, graph: StaticGraph) -> None:
    for name in (*node.input, *node.output):
        if name and graph.types[name].dtype != "float32" and name not in graph.constants:
            raise UnsupportedError(
                f"{describe(node)}: {name!r} is {graph.types[name].dtype}; refrt computes in float32"
            )


def _plain(source: Source) -> LoweredNode:
    return source.lowered()


def _view(source: Source) -> LoweredNode:
    return replace(source.lowered([source.node.input[0]]), view=True)


def _dropout(source: Source) -> LoweredNode:
    if len(source.node.output) > 1 and source.node.output[1]:
        raise UnsupportedError(f"{describe(source.node)}: the mask output is for training")
    training = source.constant(2)
    if training is not None and bool(training):
        raise UnsupportedError(f"{describe(source.node)} is in training mode")
    return _view(source)


def _conv(source: Source, weights: int = 1) -> LoweredNode:
    kernel = list(source.shape(weights)[2:])
    rank = len(kernel)
    strides = source.integers("strides", [1] * rank)
    dilations = source.integers("dilations", [1] * rank)
    pads = source.integers("pads", [0] * 2 * rank)
    if source.integers("kernel_shape", kernel) != kernel:
        raise ModelError(f"{describe(source.node)}: kernel_shape disagrees with the weights")
    auto_pad = source.text("auto_pad", "NOTSET")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(source, kernel, strides, dilations, lower_first=auto_pad == "SAME_LOWER")
    elif auto_pad == "VALID":
        pads = [0] * 2 * rank
    group = [source.integer("group", 1)]
    return source.lowered(strides=strides, dilations=dilations, pads=pads, group=group)


def _same_pads(
    source: Source, kernel: list[int], strides: list[int], dilations: list[int], lower_first: bool
) -> list[int]:
    before, after = [], []
    sizes = zip(source.shape(0)[2:], source.output_shape[2:], kernel, strides, dilations, strict=True)
    for size, out, width, stride, dilation in sizes:
        total = max(0, (out - 1) * stride + (width - 1) * dilation + 1 - size)
        small, large = total // 2, total - total // 2
        before.append(large if lower_first else small)
        after.append(small if lower_first else large)
    return before + after


def _batch_normalization(source: Source) -> LoweredNode:
    """y = x * scale + shift, both computed in float64 and rounded once to float32."""
    if source.integer("training_mode", 0) or len([name for name in source.node.output if name]) > 1:
        raise UnsupportedError(f"{describe(source.node)} is in training mode")
    gamma, beta, mean, variance = (source.need(index).astype(np.float64) for index in range(1, 5))
    scale = gamma / np.sqrt(variance + np.float64(source.number("epsilon", 1e-5)))
    shift = beta - mean * scale
    out = source.node.output[0]
    names = (f"{out}#scale", f"{out}#shift")
    values = (scale.astype(np.float32), shift.astype(np.float32))
    return replace(source.lowered([source.node.input[0], *names]), constants=dict(zip(names, values, strict=True)))


def _cast(source: Source) -> LoweredNode:
    types = [source.graph.types[name].dtype for name in (source.node.input[0], source.node.output[0])]
    if types[0] not in ("uint8", "int8", "int32") or types[1] != "float32":
        raise UnsupportedError(
            f"{describe(source.node)}: from {types[0]} to {types[1]}; refrt takes uint8, int8 and int32 to float32"
        )
    return source.lowered()


def _hard_sigmoid(source: Source) -> LoweredNode:
    return source.lowered(alpha=[source.number("alpha", 0.2)], beta=[source.number("beta", 0.5)])


def _softmax(source: Source) -> LoweredNode:
    if source.graph.opset >= 13:
        return source.lowered(axis=[source.integer("axis", -1)])
    return source.lowered(axis=[source.integer("axis", 1)], flatten=[1])


def _transpose(source: Source) -> LoweredNode:
    rank = len(source.shape(0))
    return source.lowered(perm=source.integers("perm", list(range(rank))[::-1]))


def _concat(source: Source) -> LoweredNode:
    return source.lowered(axis=[source.integer("axis", 1)])


def _pow(source: Source) -> LoweredNode:
    exponent = source.need(1)
    if exponent.size != 1 or float(exponent.reshape(-1)[0]) not in (0.5, 1.0, 2.0, 3.0):
        raise UnsupportedError(
            f"{describe(source.node)}: exponent {exponent.reshape(-1)[:4].tolist()}; refrt takes 0.5, 1, 2 or 3"
        )
    name = f"{source.node.output[0]}#exponent"
    value = exponent.reshape(1).astype(np.float32)
    return replace(source.lowered([source.node.input[0], name]), constants={name: value})


def _slice(source: Source) -> LoweredNode:
    shape = source.shape(0)
    if source.graph.opset < 10:
        starts = source.integers("starts", [])
        axes = source.integers("axes", list(range(len(starts))))
        steps = [1] * len(starts)
    else:
        starts = [int(item) for item in source.need(1).reshape(-1)]
        given_axes, given_steps = source.constant(3), source.constant(4)
        axes = list(range(len(starts))) if given_axes is None else [int(item) for item in given_axes.reshape(-1)]
        steps = [1] * len(starts) if given_steps is None else [int(item) for item in given_steps.reshape(-1)]
    first, step_of = [0] * len(shape), [1] * len(shape)
    for start, axis, step in zip(starts, axes, steps, strict=True):
        size = shape[axis]
        step_of[axis] = max(-(2**31), min(2**31, step))
        wrapped = start + size if start < 0 else start
        first[axis] = max(0, min(wrapped, size - 1 if step < 0 else size))
    return source.lowered([source.node.input[0]], starts=first, steps=step_of)


def _pad(source: Source) -> LoweredNode:
    rank = len(source.shape(0))
    value = 0.0
    axes = list(range(rank))
    if source.graph.opset < 11:
        given, value = source.integers("pads", []), source.number("value", 0.0)
    else:
        given = [int(item) for item in source.need(1).reshape(-1)]
        fill, chosen = source.constant(2), source.constant(3)
        value = 0.0 if fill is None or fill.size == 0 else float(fill.reshape(-1)[0])
        axes = axes if chosen is None else [int(item) % rank for item in chosen.reshape(-1)]
    if len(given) != 2 * len(axes):
        raise ModelError(f"{describe(source.node)}: {len(given)} pads for {len(axes)} axes")
    pads = [0] * 2 * rank
    for index, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = given[index], given[len(axes) + index]
    return source.lowered([source.node.input[0]], pads=pads, mode=source.text("mode", "constant"), value=[value])


def _lstm(source: Source) -> LoweredNode:
    activations = source.attribute("activations")
    if activations not in (None, [b"Sigmoid", b"Tanh", b"Tanh"]):
        raise UnsupportedError(f"{describe(source.node)}: activations {activations}; refrt takes the default ones")
    if source.attribute("clip") is not None or source.integer("input_forget", 0):
        raise UnsupportedError(f"{describe(source.node)}: clip and input_forget are not supported")
    return source.lowered(
        hidden_size=[source.integer("hidden_size", source.shape(2)[-1])],
        layout=[source.integer("layout", 0)],
        direction=source.text("direction", "forward"),
    )


def _affine(source: Source, real: str, integers: str) -> LoweredNode:
    """Scale and zero point as constants of one size; ``integers`` has the type of the zero point, ``real`` float32."""
    if source.integer("block_size", 0) or source.integer("saturate", 1) != 1:
        raise UnsupportedError(f"{describe(source.node)}: blocks and wrapping around are not supported")
    types = source.graph.types
    if types[real].dtype != "float32":
        raise UnsupportedError(f"{describe(source.node)}: {real!r} is {types[real].dtype}; refrt computes in float32")
    scale = source.need(1)
    zero = source.constant(2)
    zero = np.zeros(scale.shape, types[integers].dtype) if zero is None else zero
    out = source.node.output[0]
    made = {f"{out}#scale": scale.reshape(-1).astype(np.float32), f"{out}#zero": zero.reshape(-1)}
    axis = source.integer("axis", 1) % max(1, len(source.shape(0)))
    return replace(source.lowered([source.node.input[0], *made], axis=[axis]), constants=made)


def _quantize_linear(source: Source) -> LoweredNode:
    return _affine(source, source.node.input[0], source.node.output[0])


def _dequantize_linear(source: Source) -> LoweredNode:
    return _affine(source, source.node.output[0], source.node.input[0])


LOWERINGS: dict[str, Callable[[Source], LoweredNode]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Relu", "HardSwish", "Sigmoid", "Sqrt"), _plain),
    **dict.fromkeys(("GlobalAveragePool", "MatMul"), _plain),
    **dict.fromkeys(("DynamicQuantizeLinear", "MatMulInteger", "QLinearMatMul"), _plain),
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"), _view),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Concat": _concat,
    **dict.fromkeys(("Conv", "ConvInteger"), _conv),
    "DequantizeLinear": _dequantize_linear,
    "Dropout": _dropout,
    "HardSigmoid": _hard_sigmoid,
    "LSTM": _lstm,
    "Pad": _pad,
    "Pow": _pow,
    "QLinearConv": lambda source: _conv(source, weights=3),
    "QuantizeLinear": _quantize_linear,
    "Slice": _slice,
    "Softmax": _softmax,
    "Transpose": _transpose,
}

#: Operators that move elements of any type, change it, or compute in integers.
TYPELESS = frozenset(
    {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout", "Concat", "Pad", "Slice", "Transpose"}
    | {"Cast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
    | {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
)
