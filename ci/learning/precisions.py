"""The healthy engines of one precision: what is learned over ``fp32``, ``fp16``, ``bf16`` and ``int8``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ci.learning.chips import ChipEngine, suited
from ci.sensitivity.engines import GOLDEN, HEALTHY_ORT, Arrays, Engine, Ort, Refrt, healthy
from engine.models.graph import read_model
from engine.models.quantise import Recipe, quantised_model
from engine.runtimes import onnxruntime as runtime

LOW = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
#: A u8·s8 product saturates on x86 without VNNI; computed with 16 bits it does not.
EXACT_PRODUCTS = ("session.x64quantprecision", "1")


@dataclass(frozen=True)
class Stored:
    """ONNX Runtime with tensors rounded to 16 bits as they are stored: every Nth layer (0: none) and the weights.

    It runs on this host, or on the chip of ``on``, whose own settings then decide the optimisation.
    """

    name: str
    precision: str
    every: int = 1
    weights: bool = True
    optimisation: str = "off"
    on: ChipEngine | None = None

    @property
    def chip(self) -> str:
        """The chip of ``on``; empty for this host's."""
        return self.on.chip if self.on else ""

    def run(self, model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
        """Layer id to tensor."""
        kinds = {name: array.dtype for name, array in GOLDEN.run(model, inputs).items()}
        rounded = [name for place, name in enumerate(kinds) if self.every and place % self.every == 0]
        changed = _rounding(model, {name for name in rounded if kinds[name] == np.float32}, LOW[self.precision])
        if self.weights:
            _round_weights(changed, self.precision)
        names = list(kinds)
        if self.on:
            return self.on.run(changed, inputs, names)
        copy = onnx.ModelProto()
        copy.CopyFrom(changed)
        given = {value.name for value in copy.graph.output}
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in given)
        options = runtime.Options(self.optimisation)
        return dict(zip(names, runtime.run(bytes(copy.SerializeToString()), inputs, names, options), strict=True))


def subject_model(precision: str, model: onnx.ModelProto, inputs: Sequence[Arrays]) -> onnx.ModelProto:
    """The model whose golden is learned from: itself, or for ``int8`` quantised (QDQ) with ``inputs`` to calibrate."""
    if precision != "int8":
        return model
    with tempfile.TemporaryDirectory(prefix="lockstep-learn-") as scratch:
        source = Path(scratch) / "float.onnx"
        onnx.save(model, str(source))
        return read_model(quantised_model(source, inputs, Recipe(reduce_range=True), Path(scratch)))


def engines(
    precision: str, model: onnx.ModelProto, inputs: Arrays, builds: Sequence[Refrt]
) -> Sequence[Engine | Stored]:
    """Every healthy engine of that precision on this host that can run ``model``."""
    if precision == "fp32":
        return healthy(model, inputs, builds)
    if precision == "int8":
        return tuple(
            Ort(engine.name, engine.optimisation, engine.threads, engine.every, (*engine.entries, EXACT_PRODUCTS))
            for engine in HEALTHY_ORT
        )
    return _stored(precision)


def engines_elsewhere(
    precision: str, model: onnx.ModelProto, inputs: Arrays, chips: Sequence[ChipEngine]
) -> Sequence[ChipEngine | Stored]:
    """Those of other chips. ``refrt`` computes in 32 bits alone; ONNX Runtime takes rounded and quantised models."""
    if precision == "fp32":
        return suited(chips, model, inputs)
    able = [engine for engine in chips if engine.model_format == "onnx"]
    if precision == "int8":
        return able
    words = "storage, every layer"
    return [Stored(f"{precision} {words}, {engine.name}", precision, on=engine) for engine in able]


def _stored(precision: str) -> tuple[Stored, ...]:
    made = [
        Stored(f"{precision} weights{where}", precision, every=0, optimisation=level)
        for level, where in (("off", ""), ("all", ", all optimisations"))
    ]
    for every, words in ((1, "every layer"), (2, "every 2nd layer"), (3, "every 3rd layer"), (5, "every 5th layer")):
        made += [
            Stored(
                f"{precision} storage, {words}{'' if weights else ', weights as they are'}", precision, every, weights
            )
            for weights in (True, False)
        ]
    return (*made, Stored(f"{precision} storage, every layer, all optimisations", precision, optimisation="all"))


def _rounding(model: onnx.ModelProto, layers: set[str], kind: int) -> onnx.ModelProto:
    """A copy in which each of ``layers`` is rounded to ``kind`` and widened again."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    for node in model.graph.node:
        mine = copy.graph.node.add()
        mine.CopyFrom(node)
        for place, name in enumerate(node.output):
            if name in layers:
                wide, narrow = f"{name}/wide", f"{name}/narrow"
                mine.output[place] = wide
                copy.graph.node.append(helper.make_node("Cast", [wide], [narrow], to=kind))
                copy.graph.node.append(helper.make_node("Cast", [narrow], [name], to=TensorProto.FLOAT))
    if kind == TensorProto.BFLOAT16:
        _raise_opset(copy)
    return copy


def _raise_opset(model: onnx.ModelProto) -> None:
    """bfloat16 came with opset 13; a Cast is all that needs it, so a model of an older one is converted."""
    opset = next((entry.version for entry in model.opset_import if not entry.domain), 0)
    if opset < 13:
        model.CopyFrom(onnx.version_converter.convert_version(model, 13))


def _round_weights(model: onnx.ModelProto, precision: str) -> None:
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            values = ROUND[precision](numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _to_fp16(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _to_bf16(values: np.ndarray) -> np.ndarray:
    """To nearest, ties to even; finite values only, as weights are."""
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    return rounded.view(np.float32).reshape(values.shape)


ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {"fp16": _to_fp16, "bf16": _to_bf16}
