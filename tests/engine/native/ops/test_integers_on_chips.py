"""Operators on integers and codes give every chip the same bits: each ABI's own build, emulated, beside the host's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.models.export import export_refrt
from engine.toolchain import Toolchain
from tests.engine.native.conftest import Refrt, build_host
from tests.engine.native.ops.codes import codes

CPUS = {
    "arm64": ("qemu-aarch64", "cortex-a53"),
    "armv7": ("qemu-arm", "cortex-a9"),
    "riscv64": ("qemu-riscv64", "rv64"),
}


def model() -> onnx.ModelProto:
    """x float32 [2, 3, 20], quantised at run time, through products and 1-D convolutions to real numbers and codes."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        helper.make_node("MatMulInteger", ["xq", "w", "xz", "wz"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "xs"], ["scaled"]),
        helper.make_node("QLinearMatMul", ["xq", "s", "xz", "w", "ws", "wz", "ys", "yz"], ["codes"]),
        helper.make_node("ConvInteger", ["xq", "k", "xz", "kz"], ["taps"], pads=[1, 1]),
        helper.make_node("QLinearConv", ["xq", "s", "xz", "k", "ks", "kz", "ys", "yz", "kb"], ["conv"], strides=[2]),
    ]
    constants = {
        "w": codes(2, np.int8, 20, 17),
        "wz": codes(3, np.int8, 17),
        "s": np.float32(0.03),
        "ws": np.linspace(0.01, 0.02, 17, dtype=np.float32),
        "k": codes(4, np.int8, 5, 3, 3),
        "kz": codes(5, np.int8, 5),
        "ks": np.linspace(0.01, 0.02, 5, dtype=np.float32),
        "kb": np.array([-4000, 2**31 - 1, 0, 7, 1000], np.int32),
        "ys": np.float32(0.3),
        "yz": np.int8(-3),
    }
    ends = [onnx.ValueInfoProto(name=name) for name in ("scaled", "codes", "taps", "conv")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 20])
    initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "integers", [x], ends, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.qemu
@pytest.mark.parametrize("abi", sorted(CPUS))
def test_the_same_bits(refrt, noise, abi):
    export_refrt(model(), {}, refrt.folder / "m.refrt")
    feeds = {"x": noise(2, 3, 20)}
    passes = {"passes": ("plain", "instrumented")}
    here = refrt.run(refrt.folder / "m.refrt", feeds, **passes).result
    emulator, cpu = CPUS[abi]
    prefix = (str(Toolchain.ensure().emulator(emulator)), "-cpu", cpu)
    there = replace(refrt, program=build_host("refrt", "canonical", abi), prefix=prefix)
    found = there.run(refrt.folder / "m.refrt", feeds, **passes).result
    assert isinstance(there, Refrt)
    assert len(here.layers) >= 9
    assert {layer.id: layer.digest for layer in found.layers} == {layer.id: layer.digest for layer in here.layers}
