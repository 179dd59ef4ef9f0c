"""An 8-bit model made from an FP32 one: static, QuantizeLinear and DequantizeLinear around the operators (QDQ)."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.digest import file_sha256, tensor_digest
from engine.models.graph import read_model
from engine.runtimes import onnxruntime as runtime

#: Raised when the same model and inputs give another quantised model.
RECIPE_VERSION = 1

Inputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Recipe:
    """How a model is quantised. ``operators``: those that compute in 8 bits.

    ``reduce_range`` keeps weights within 7 bits, which kernels that saturate need; ``per_channel`` gives every output
    channel of a weight its own scale.
    """

    operators: tuple[str, ...] = ("Conv", "MatMul")
    per_channel: bool = False
    reduce_range: bool = False


def quantised_model(fp32: Path, calibration: Sequence[Inputs], recipe: Recipe, folder: Path) -> Path:
    """The quantised form of ``fp32``: uint8 activations, int8 weights, the ranges seen on ``calibration``.

    Kept in ``folder`` under a name that covers model, inputs, recipe and the runtime's version; on one machine the same
    four give the same bytes. Tensors keep the names they have in ``fp32``. ``ModelError`` when it cannot be done.
    """
    target = folder / f"{_key(fp32, calibration, recipe)}.onnx"
    if target.is_file():
        return target
    read_model(fp32)  # the quantiser is not made for hostile files
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".quantise-", dir=folder) as scratch:
        part = Path(scratch) / "quantised.onnx"
        runtime.quantise(
            fp32, part, calibration, recipe.operators, per_channel=recipe.per_channel, reduce_range=recipe.reduce_range
        )
        read_model(part)
        part.replace(target)
    return target


def _key(fp32: Path, calibration: Sequence[Inputs], recipe: Recipe) -> str:
    sha = hashlib.sha256(f"{RECIPE_VERSION}|{runtime.version()}|{file_sha256(fp32)}|{recipe}".encode())
    for inputs in calibration:
        for name in sorted(inputs):
            sha.update(f"|{name!r}:{inputs[name].shape}:{tensor_digest(inputs[name])}".encode())
    return sha.hexdigest()
