"""ONNX Runtime on the CPU: the one door to it in this package.

Unless asked for more: optimisation off, one thread, FP32 as written.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# The wheel phones home and keeps a file in the user's cache unless it is told not to before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime as ort

from engine.contract.errors import ModelError, UnsupportedError

PROVIDER = "CPUExecutionProvider"
FATAL_ONLY = 4


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


def _session(model: bytes, chosen: Options) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[chosen.optimisation]
    options.intra_op_num_threads = chosen.threads
    for key, value in chosen.entries:
        options.add_session_config_entry(key, value)
    options.inter_op_num_threads = 1
    options.log_severity_level = FATAL_ONLY
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ort.InferenceSession(model, options, providers=[PROVIDER])
    except Exception as error:
        words = _first_line(error)
        if type(error).__name__ == "NotImplemented":
            raise UnsupportedError(f"ONNX Runtime lacks an operator: {words}", hint="take another model") from error
        raise ModelError(f"ONNX Runtime cannot load the model: {words}", hint="check it with onnx.checker") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:400] if str(error).strip() else type(error).__name__
