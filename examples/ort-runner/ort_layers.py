"""The example engine with layers: instrumented passes and layers alone (contract level 2).

ONNX Runtime shows an inner tensor when it is made an output of the model. That keeps its optimiser from fusing what
lies around it, so the instrumented pass may compute another result than the plain one: the farm compares the two,
asks for a few layers at a time (``capture``), and for layers alone on given inputs (``isolated``).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import ort_runner as plain
from onnx import numpy_helper

LEVEL = 2
#: Their result depends on the shape of the input only: folded by every engine.
SHAPE_ONLY = {"Shape", "Size"}


class Engine:
    """The model of one request, its inputs, and the constants inside it."""

    def __init__(self, request: dict) -> None:
        self.request = request
        self.session = plain.load(request)
        self.model = onnx.load_model_from_string(Path(request["model"]["path"]).read_bytes())
        self.inputs = {entry["name"]: plain.read_tensor(entry) for entry in request["inputs"]}
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.ops = {name: node.op_type for node in self.model.graph.node for name in node.output if name}
        self.layers = [name for name in self.ops if name in self._varying()]

    def _varying(self) -> set[str]:
        """Tensors that depend on the values of the inputs."""
        initial = {tensor.name for tensor in self.model.graph.initializer}
        varying = {value.name for value in self.model.graph.input} - initial
        for node in self.model.graph.node:
            if node.op_type not in SHAPE_ONLY and varying & set(node.input):
                varying |= set(node.output) - {""}
        return varying

    def exposed(self, names: list[str]) -> ort.InferenceSession:
        """The model with these tensors as outputs, optimised as the plain one is."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in self.outputs)
        return session(copy, self.request)

    def chosen(self, key: str) -> list[str]:
        """The layers that the request names under ``key``; unknown ones are refused."""
        names = self.request.get(key) or []
        for name in names:
            if name not in self.ops:
                raise plain.BadRequest(f"request.{key} names layer {name}, which the model lacks")
        return list(names)

    def instrumented(self, iterations: int) -> tuple[list[dict], dict[str, np.ndarray]]:
        """The passes, and the captured layers of the first one: copies, so that a later run cannot change them."""
        captured = self.chosen("capture") or self.layers
        names = [*self.outputs, *(name for name in captured if name not in self.outputs)]
        runtime = self.exposed(captured)
        passes, first = [], {}
        for iteration in range(iterations):
            plain.progress(kind="instrumented", iteration=iteration)
            started = time.monotonic_ns()
            arrays = dict(zip(names, runtime.run(names, self.inputs), strict=True))
            latency = time.monotonic_ns() - started
            digests = {name: plain.digest(arrays[name]) for name in self.outputs}
            passes.append({"kind": "instrumented", "iteration": iteration, "outputs": digests, "latency_ns": latency})
            first = first or {name: np.array(arrays[name]) for name in captured}
        return passes, {name: first[name] for name in self.ops if name in first}

    def alone(self) -> dict[str, np.ndarray]:
        """Every layer of ``isolated`` computed by its node alone, on the tensors the request brings."""
        orders = self.request.get("isolated") or {}
        self.request["isolated names"] = list(orders)
        self.chosen("isolated names")
        nodes = {name: node for node in self.model.graph.node for name in node.output}
        initial = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.model.graph.initializer}
        given = {
            name: {key: plain.read_tensor(entry) for key, entry in order.items()} for name, order in orders.items()
        }
        read = {key for name in orders for key in nodes[name].input if key and key not in given[name]}
        inner = sorted(read - set(initial) & set(self.ops) - set(self._varying()))
        known = dict(zip(inner, self.exposed(inner).run(inner, self.inputs), strict=True)) if inner else {}
        results = {}
        for name in sorted(orders, key=list(self.ops).index):
            lacking = [k for k in nodes[name].input if k and k not in {**given[name], **initial, **known}]
            if lacking:
                raise plain.BadRequest(f"isolated layer {name} lacks its input {lacking[0]}")
            results[name] = self._one(nodes[name], name, given[name], initial | known)
        return results

    def _one(self, node: onnx.NodeProto, name: str, given: dict, constants: dict) -> np.ndarray:
        kinds = {key: onnx.helper.np_dtype_to_tensor_dtype(value.dtype) for key, value in given.items()}
        ends = [onnx.helper.make_tensor_value_info(key, kinds[key], value.shape) for key, value in given.items()]
        fixed = [key for key in dict.fromkeys(node.input) if key and key not in given]
        initial = [numpy_helper.from_array(np.asarray(constants[key]), key) for key in fixed]
        graph = onnx.helper.make_graph([node], "alone", ends, [onnx.ValueInfoProto(name=name)], initial)
        cut = onnx.helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
        return session(cut, self.request).run([name], given)[0]


def session(model: onnx.ModelProto, request: dict) -> ort.InferenceSession:
    """A session with the settings of the plain one."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def record(request: dict, out: Path, name: str, op: str, array: np.ndarray, *, alone: bool) -> dict:
    """One layer of the answer."""
    entry = {"id": name, "op": op, "dtype": array.dtype.name, "shape": list(array.shape), "digest": plain.digest(array)}
    if np.issubdtype(array.dtype, np.floating):
        signs = {"nan": np.isnan(array), "pos_inf": np.isposinf(array), "neg_inf": np.isneginf(array)}
        entry["nonfinite"] = {kind: int(np.count_nonzero(found)) for kind, found in signs.items()}
    golden = request.get("golden", {}).get(name)
    if golden:
        entry["stats"] = statistics(array, plain.read_tensor(golden), golden["bound"])
    if name in request.get("keep", []):
        entry["tensor"] = f"{'alone' if alone else 'layer'}-{list(request['keep']).index(name)}.bin"
        plain.write_atomically(out / entry["tensor"], plain.raw(array))
    return {**entry, "isolated": True} if alone else entry


def statistics(got: np.ndarray, ref: np.ndarray, bound: float) -> dict:
    """What the contract wants to know of one tensor against the golden's."""
    if (got.dtype, got.shape) != (ref.dtype, ref.shape):
        raise plain.BadRequest(f"the golden is {ref.dtype}{ref.shape}, the layer {got.dtype}{got.shape}")
    a, b = got.reshape(-1).astype(np.float64), ref.reshape(-1).astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    unlike = (~np.isfinite(a) | ~np.isfinite(b)) & ~same
    pairs = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(pairs, a, 0.0), np.where(pairs, b, 0.0)
    difference = np.abs(a - b)
    worst = int(np.argmax(difference)) if difference.size and difference.max() > 0 else -1
    return {
        "count": int(got.size),
        "differing": int(np.count_nonzero(bits(got) != bits(ref))),
        "over_bound": int(np.count_nonzero((difference > bound) | unlike)),
        "max_abs": float(difference.max()) if difference.size else 0.0,
        "worst_index": worst,
        "worst_got": float(a[worst]) if worst >= 0 else 0.0,
        "worst_ref": float(b[worst]) if worst >= 0 else 0.0,
        "sum_diff": float(np.sum(a - b)),
        "sum_sq_diff": float(np.sum((a - b) ** 2)),
        "sum_sq_ref": float(np.sum(b**2)),
        "sum_sq_got": float(np.sum(a**2)),
        "dot": float(np.sum(a * b)),
        "nonfinite_mismatch": int(np.count_nonzero(unlike)),
    }


def bits(array: np.ndarray) -> np.ndarray:
    """The elements as unsigned integers of their size."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")


def run(request: dict, out: Path) -> None:
    """The passes and layers that the request asks for."""
    started = time.monotonic_ns()
    engine = Engine(request)
    load_ns = time.monotonic_ns() - started
    out.mkdir(parents=True, exist_ok=True)
    passes, arrays, layers = [], [], []
    if "plain" in request["passes"]:
        passes, arrays = plain.plain_passes(engine.session, engine.inputs, request["iterations"])
    if "instrumented" in request["passes"]:
        shown, captured = engine.instrumented(request["iterations"])
        passes += shown
        layers = [record(request, out, name, engine.ops[name], captured[name], alone=False) for name in captured]
    for name, array in engine.alone().items():
        layers.append(record(request, out, name, engine.ops[name], array, alone=True))
    result = plain.answer(request, engine.session, level=LEVEL, load_ns=load_ns)
    result |= {"passes": passes, "layers": layers}
    result["outputs"] = [
        plain.write_output(out, *entry) for entry in zip(range(len(arrays)), engine.outputs, arrays, strict=False)
    ]
    plain.write_result(out, result)


if __name__ == "__main__":
    sys.exit(plain.main(run))
