"""A complete level-0 engine: ONNX Runtime's CPU wheel behind the runner contract.

``ort_runner.py run --request request.json --out DIR`` reads the request, runs the model and leaves
``DIR/result.json`` with the final outputs beside it. Nothing of Lockstep is imported: the contract is
JSON, raw little-endian tensors and XXH3-128 digests. Exit codes: 0 done, 2 bad request,
3 model or backend unsupported, 4 the runtime failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
import xxhash

CONTRACT = 1
VERSION = "1.0"
#: Backends by name, and how far the runtime may rewrite the model for each.
BACKENDS = {"cpu": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}


class BadRequest(Exception):
    """Exit 2."""


class Unsupported(Exception):
    """Exit 3."""


def main(run: Callable[[dict, Path], None]) -> int:
    """Run one request; every failure is one line on stderr and an exit code of the contract."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    run_parser = commands.add_parser("run")
    run_parser.add_argument("--request", type=Path, required=True)
    run_parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        run(read_request(arguments.request), arguments.out)
    except BadRequest as error:
        return say(2, error)
    except Unsupported as error:
        return say(3, error)
    except Exception as error:  # whatever the runtime throws is its failure, said in one line
        return say(4, error)
    return 0


def say(code: int, error: Exception) -> int:
    """One line for the log."""
    print(" ".join(str(error).split())[:500] or type(error).__name__, file=sys.stderr)
    return code


def read_request(path: Path) -> dict:
    """The request, checked as far as this engine uses it."""
    try:
        request = json.loads(path.read_text())
        if request["contract"] != CONTRACT:
            raise BadRequest(f"contract {request['contract']!r}; this runner speaks {CONTRACT}")
        for key in ("job", "attempt", "model", "inputs", "passes", "iterations", "backend", "precision", "threads"):
            request[key]
        if not isinstance(request["iterations"], int) or not 1 <= request["iterations"] <= 10_000:
            raise BadRequest(f"iterations is {request['iterations']!r}")
        for entry in [request["model"], *request["inputs"]]:
            entry["path"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{path.name}: {type(error).__name__} {error}") from error
    if request["model"].get("format") != "onnx":
        raise Unsupported(f"model format {request['model'].get('format')!r}: this engine reads onnx")
    if request["backend"] not in BACKENDS or request["precision"] != "fp32":
        asked = f"backend {request['backend']!r}, precision {request['precision']!r}"
        raise Unsupported(f"{asked}: this engine has {', '.join(BACKENDS)}, fp32")
    return request


def run(request: dict, out: Path) -> None:
    """Run the plain pass as often as asked and write the answer. Layers are not this engine's to show (level 0)."""
    started = time.monotonic_ns()
    session = load(request)
    inputs = {entry["name"]: read_tensor(entry) for entry in request["inputs"]}
    load_ns = time.monotonic_ns() - started
    names = [output.name for output in session.get_outputs()]
    passes, arrays = plain_passes(session, inputs, request["iterations"] if "plain" in request["passes"] else 0)
    out.mkdir(parents=True, exist_ok=True)
    outputs = [write_output(out, *entry) for entry in zip(range(len(arrays)), names, arrays, strict=bool(arrays))]
    write_result(out, {**answer(request, session, level=0, load_ns=load_ns), "passes": passes, "outputs": outputs})


def plain_passes(session: ort.InferenceSession, inputs: dict, iterations: int) -> tuple[list[dict], list[np.ndarray]]:
    """The passes, and the outputs of the first: copies, so that a later run cannot change an earlier result."""
    names = [output.name for output in session.get_outputs()]
    passes, first = [], []
    for iteration in range(iterations):
        progress(kind="plain", iteration=iteration)
        started = time.monotonic_ns()
        arrays = session.run(names, inputs)
        latency = time.monotonic_ns() - started
        digests = {name: digest(array) for name, array in zip(names, arrays, strict=True)}
        passes.append({"kind": "plain", "iteration": iteration, "outputs": digests, "latency_ns": latency})
        first = first or [np.array(array) for array in arrays]
    return passes, first


def answer(request: dict, session: ort.InferenceSession, level: int, load_ns: int) -> dict:
    """The result so far: who answers and what really ran."""
    return {
        "contract": CONTRACT,
        "job": request["job"],
        "attempt": request["attempt"],
        "runner": {
            "name": "ort-example",
            "version": VERSION,
            "build": f"onnxruntime {ort.__version__}",
            "level": level,
        },
        "effective": effective(session, request),
        "load_ns": load_ns,
        "passes": [],
        "outputs": [],
        "layers": [],
    }


def write_result(out: Path, result: dict) -> None:
    """The last file: there only when everything else is."""
    write_atomically(out / "result.json", json.dumps(result).encode())


def load(request: dict) -> ort.InferenceSession:
    """The session; the model's bytes are checked against the request first."""
    entry = request["model"]
    try:
        data = Path(entry["path"]).read_bytes()
    except OSError as error:
        raise BadRequest(f"model {entry['path']}: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise BadRequest(f"model {entry['path']} does not have the sha256 of the request")
    options = ort.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = BACKENDS[request["backend"]]
    try:
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise Unsupported(f"ONNX Runtime cannot load the model: {error}") from error


def read_tensor(entry: dict) -> np.ndarray:
    """One input from its raw file."""
    try:
        data = Path(entry["path"]).read_bytes()
        return np.frombuffer(data, dtype=np.dtype(entry["dtype"]).newbyteorder("<")).reshape(entry["shape"])
    except (OSError, TypeError, ValueError) as error:
        raise BadRequest(f"input {entry.get('name')!r}: {error}") from error


def effective(session: ort.InferenceSession, request: dict) -> dict:
    """What really ran."""
    provider = session.get_providers()[0].removesuffix("ExecutionProvider").lower()
    return {
        "backend": request["backend"] if provider == "cpu" else provider,
        "precision": "fp32",
        "threads": request["threads"],
        "affinity": None,
        "dispatch": f"onnxruntime-{os.uname().machine}",
    }


def write_output(out: Path, index: int, name: str, array: np.ndarray) -> dict:
    """One final output beside the result."""
    path = f"output-{index}.bin"
    write_atomically(out / path, raw(array))
    return {"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "digest": digest(array), "path": path}


def raw(array: np.ndarray) -> bytes:
    """Little-endian bytes in C order."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


def digest(array: np.ndarray) -> str:
    """XXH3-128 of the raw bytes."""
    return xxhash.xxh3_128_hexdigest(raw(array))


def write_atomically(path: Path, data: bytes) -> None:
    """A file is there under its name only when complete."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def progress(**facts: object) -> None:
    """One JSON line on stdout."""
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    sys.exit(main(run))
