"""ONNX's own reference evaluator: plain numpy, slow, of other makers than any engine. The one door to it as a referee.

It runs one node at a time in a process of its own: an operator that it lacks costs what depends on it and no more,
and what it has computed when its time is up is kept.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.contract.errors import ModelError

OUT_OF_TIME = "the evaluator's time was up"
_DONE = "done.jsonl"
#: Operators that the evaluator has from this version on only, with what they meant before unchanged.
_SAME_SINCE = {"DequantizeLinear": 19}


@dataclass(frozen=True)
class Evaluated:
    """``tensors`` by name, and of every tensor that was wanted and is not there the reason, in ``lacking``."""

    tensors: Mapping[str, np.ndarray]
    lacking: Mapping[str, str]


def version() -> str:
    """Versions of what computes."""
    return f"{onnx.__version__} numpy {np.__version__}"


def opset_for(op: str, opset: int) -> int:
    """The version of ONNX's operators at which the evaluator has ``op`` as it is in ``opset``."""
    return max(opset, _SAME_SINCE.get(op, 0))


def run(model: bytes, inputs: Mapping[str, np.ndarray], wanted: Sequence[str], seconds: float) -> Evaluated:
    """The tensors ``wanted``, computed from ``inputs`` within ``seconds`` of wall time.

    Only what they depend on is computed. ``ModelError`` when the evaluator ended before it had begun.
    """
    with tempfile.TemporaryDirectory(prefix="evaluator-") as place:
        folder = Path(place)
        (folder / "model.onnx").write_bytes(model)
        (folder / "order.json").write_text(json.dumps({"wanted": list(wanted), "inputs": list(inputs)}))
        for index, array in enumerate(inputs.values()):
            np.save(folder / f"in-{index}.npy", array, allow_pickle=False)
        ended = _child(folder, seconds)
        tensors, lacking = _results(folder)
        rest = [name for name in wanted if name not in tensors and name not in lacking]
        if rest and ended is not None:
            raise ModelError(
                f"ONNX's reference evaluator ended early: {ended}", hint="check the model with onnx.checker"
            )
        return Evaluated(tensors, {**lacking, **dict.fromkeys(rest, f"{OUT_OF_TIME} ({seconds:g} s)")})


def _child(folder: Path, seconds: float) -> str | None:
    """Run the evaluator on ``folder``; what it said when it broke down, ``None`` when it ended or its time was up."""
    command = [sys.executable, "-m", "engine.runtimes.onnx_reference", str(folder)]
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=log, stderr=log, start_new_session=True)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    said = (folder / "log").read_text(errors="replace").strip().splitlines()
    return None if code == 0 else (said[-1][:300] if said else f"exit code {code}")


def _results(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    tensors: dict[str, np.ndarray] = {}
    lacking: dict[str, str] = {}
    path = folder / _DONE
    for line in path.read_text().splitlines(keepends=True) if path.is_file() else ():
        if not line.endswith("\n"):  # it was killed at this very line
            continue
        entry = json.loads(line)
        if "reason" in entry:
            lacking[entry["name"]] = entry["reason"]
        else:
            tensors[entry["name"]] = np.load(folder / entry["file"], allow_pickle=False)
    return tensors, lacking


def evaluate(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], wanted: Sequence[str]
) -> Iterator[tuple[str, np.ndarray | str]]:
    """Every tensor of ``wanted`` as soon as it is known: its value, or why there is none."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer} | dict(inputs)
    lacking: dict[str, str] = {}
    for node in _needed(model, wanted):
        found = _one(node, opsets, values, lacking)
        for name in (name for name in node.output if name):
            if isinstance(found, str):
                lacking[name] = found
            else:
                values[name] = found[name]
            if name in wanted:
                yield name, found if isinstance(found, str) else found[name]


def _needed(model: onnx.ModelProto, wanted: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that ``wanted`` depends on, in order."""
    names, needed = set(wanted), []
    for node in reversed(model.graph.node):
        if names & set(node.output):
            names |= set(node.input)
            needed.append(node)
    return needed[::-1]


def _one(
    node: onnx.NodeProto, opsets: dict[str, int], values: Mapping[str, np.ndarray], lacking: Mapping[str, str]
) -> dict[str, np.ndarray] | str:
    """The outputs of one node, or why there are none."""
    for name in node.input:
        if name and name not in values:
            return f"it depends on `{name}`: {lacking[name]}" if name in lacking else f"`{name}` is not given"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = {domain: opset_for(node.op_type, opset) for domain, opset in opsets.items()}
            evaluator = ReferenceEvaluator(node, opsets=known)
            results = evaluator.run(None, {name: values[name] for name in node.input if name})
    except Exception as error:  # it raises whatever its numpy code met
        words = " ".join(str(error).split())[:200] or type(error).__name__
        return f"ONNX's reference evaluator cannot do {node.op_type}: {words}"
    outputs = dict(zip((name for name in node.output if name), map(np.asarray, results), strict=True))
    odd = next((name for name, value in outputs.items() if value.dtype == object), None)
    return outputs if odd is None else f"`{odd}` is no dense tensor"


def main(folder: Path) -> None:
    """What runs in the process of its own."""
    order = json.loads((folder / "order.json").read_text())
    model = onnx.load_model_from_string((folder / "model.onnx").read_bytes())
    inputs = {
        name: np.load(folder / f"in-{index}.npy", allow_pickle=False) for index, name in enumerate(order["inputs"])
    }
    with (folder / _DONE).open("w") as done:
        for index, (name, found) in enumerate(evaluate(model, inputs, order["wanted"])):
            entry = {"name": name}
            if isinstance(found, str):
                entry["reason"] = found
            else:
                entry["file"] = f"out-{index}.npy"
                np.save(folder / entry["file"], found, allow_pickle=False)
            done.write(json.dumps(entry) + "\n")
            done.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
