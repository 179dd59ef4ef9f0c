"""ONNX Runtime on the CPU: the one door to it in this package.

Unless asked for more: optimisation off, one thread, FP32 as written.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# The wheel phones home and keeps a file in the user's cache unless it is told not to before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime as ort

from engine.contract.errors import ModelError, UnsupportedError

PROVIDER = "CPUExecutionProvider"
FATAL_ONLY = 4
#: MatMul and Add stay two layers: joined, the first would have no name that the model knows.
KEPT_APART = ["MatMulAddFusion"]


LEVELS = {
    "off": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


@dataclass(frozen=True)
class Options:
    """How a session runs: a key of ``LEVELS``, threads within an operator, further configuration entries."""

    optimisation: str = "off"
    threads: int = 1
    entries: tuple[tuple[str, str], ...] = ()


AS_WRITTEN = Options()


def version() -> str:
    """Version of the runtime."""
    return str(ort.__version__)


def run(
    model: bytes, inputs: Mapping[str, np.ndarray], wanted: Sequence[str], options: Options = AS_WRITTEN
) -> list[np.ndarray]:
    """The tensors ``wanted`` of one run of an ONNX ``model``, in that order.

    Raises ``ModelError`` when the model cannot be loaded or run on these inputs, ``UnsupportedError`` when
    the runtime lacks an operator or a result is no dense tensor.
    """
    session = _session(model, options)
    missing = [node.name for node in session.get_inputs() if node.name not in inputs]
    if missing:
        raise ModelError(f"the model's input {missing[0]!r} is not given", hint="add it to the case's inputs")
    try:
        results = session.run(list(wanted), dict(inputs))
    except Exception as error:
        raise ModelError(
            f"ONNX Runtime cannot run the model: {_first_line(error)}", hint="check the shapes and types of its inputs"
        ) from error
    for name, result in zip(wanted, results, strict=True):
        if not isinstance(result, np.ndarray) or result.dtype == object:
            raise UnsupportedError(f"layer {name!r} is no dense tensor", hint="only tensors of numbers are compared")
    return list(results)


def quantise(
    model: Path,
    out: Path,
    calibration: Iterable[Mapping[str, np.ndarray]],
    operators: Sequence[str],
    *,
    per_channel: bool,
    reduce_range: bool,
) -> None:
    """Write ``out``, the static 8-bit form of ``model`` (QDQ, uint8 activations, int8 weights); ``ModelError``.

    BatchNormalizations go into the weights first: one step for all channels of what they are yet to bring to one size
    would be too wide for most of them.
    """
    from onnxruntime import quantization as q  # noqa: PLC0415 - a second of imports that few commands need

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]  # the runtime has no types
        def __init__(self) -> None:
            self.rest = iter(calibration)

        def get_next(self) -> dict[str, np.ndarray] | None:
            inputs = next(self.rest, None)
            return None if inputs is None else dict(inputs)

    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)  # its advice goes to the root logger
    try:
        fused = out.with_name("fused.onnx")
        _session(model.read_bytes(), Options("basic"), fused)
        q.quantize_static(
            str(fused),
            str(out),
            Reader(),
            quant_format=q.QuantFormat.QDQ,
            op_types_to_quantize=list(operators),
            per_channel=per_channel,
            reduce_range=reduce_range,
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
        )
    except Exception as error:
        raise ModelError(
            f"{model.name} cannot be quantised: {_first_line(error)}",
            hint="check the inputs and operators under `quantise`",
        ) from error
    finally:
        root.setLevel(before)


def _session(model: bytes, chosen: Options, optimised: Path | None = None) -> ort.InferenceSession:
    """A session; the graph it settled on is written to ``optimised``."""
    options = ort.SessionOptions()
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
    options.graph_optimization_level = LEVELS[chosen.optimisation]
    options.intra_op_num_threads = chosen.threads
    for key, value in chosen.entries:
        options.add_session_config_entry(key, value)
    options.inter_op_num_threads = 1
    options.log_severity_level = FATAL_ONLY
    try:
        apart = KEPT_APART if optimised is not None else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ort.InferenceSession(model, options, providers=[PROVIDER], disabled_optimizers=apart)
    except Exception as error:
        words = _first_line(error)
        if type(error).__name__ == "NotImplemented":
            raise UnsupportedError(f"ONNX Runtime lacks an operator: {words}", hint="take another model") from error
        raise ModelError(f"ONNX Runtime cannot load the model: {words}", hint="check it with onnx.checker") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:400] if str(error).strip() else type(error).__name__
