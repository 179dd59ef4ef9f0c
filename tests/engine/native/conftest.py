"""One-node models through the exporter and the host's `refrt`, beside ONNX's own reference evaluator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.bundle import BuildSpec, build_bundle
from engine.contract.dtypes import decode
from engine.contract.request import GoldenTensor, ModelFile, Request, TensorFile
from engine.contract.result import LayerRecord, Result, parse_result
from engine.digest import file_sha256
from engine.models.export import export_refrt
from engine.places import cache_root

ROOT = Path(__file__).parents[3]
ABI = "x86-64"


@dataclass(frozen=True)
class Answer:
    """A result and where its files lie."""

    result: Result
    folder: Path

    def output(self, name: str) -> np.ndarray:
        record = next(output for output in self.result.outputs if output.name == name)
        return decode((self.folder / record.path).read_bytes(), record.dtype, record.shape)

    def layer(self, name: str) -> LayerRecord:
        return next(layer for layer in self.result.layers if layer.id == name)

    def tensor(self, name: str) -> np.ndarray:
        record = self.layer(name)
        assert record.tensor is not None
        return decode((self.folder / record.tensor).read_bytes(), record.dtype, record.shape)


@dataclass(frozen=True)
class Refrt:
    """The runner under test in a folder of its own."""

    program: Path
    folder: Path
    prefix: tuple[str, ...] = ()  # an emulator and its words

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self.prefix, str(self.program), *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)

    def tensor_file(self, name: str, array: np.ndarray) -> TensorFile:
        path = self.folder / f"in{len(list(self.folder.glob('in*.bin')))}.bin"
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        return TensorFile(name, array.dtype.name, array.shape, path.name, file_sha256(path))

    def golden(self, array: np.ndarray, bound: float) -> GoldenTensor:
        file = self.tensor_file("golden", array)
        return GoldenTensor(file.path, file.dtype, file.shape, bound)

    def request(self, model: Path, inputs: Mapping[str, np.ndarray], **changes: object) -> Request:
        files = tuple(self.tensor_file(name, array) for name, array in inputs.items())
        file = ModelFile(model.name, file_sha256(model), "refrt")
        return Request(job="job", attempt=1, model=file, inputs=files, **changes)  # type: ignore[arg-type]

    def send(self, text: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "request.json").write_text(text)
        return self.call("run", "--request", "request.json", "--out", "out")

    def run(self, model: Path, inputs: Mapping[str, np.ndarray], **changes: object) -> Answer:
        done = self.send(self.request(model, inputs, **changes).to_json())
        assert done.returncode == 0, done.stderr
        for line in done.stdout.splitlines():
            json.loads(line)
        return Answer(parse_result((self.folder / "out" / "result.json").read_bytes()), self.folder / "out")


def build_host(name: str, flavour: str, abi: str = ABI) -> Path:
    command = ("{python}", "-m", "engine.native.build", "--abi", "{abi}", "--flavour", flavour, "--out", "{out}")
    spec = BuildSpec(command, ("engine/native/**", "setup/packages.yaml"))
    bundle = build_bundle(name, abi, ["refrt"], spec, ROOT, cache=cache_root(), python=sys.executable)
    return bundle.root / "refrt"


@pytest.fixture(scope="session")
def refrt_program() -> Path:
    """Of this tree, or the one that ``REFRT_UNDER_TEST`` names."""
    given = os.environ.get("REFRT_UNDER_TEST")
    return Path(given) if given else build_host("refrt", "canonical")


@pytest.fixture
def refrt_fast(tmp_path: Path) -> Refrt:
    """The build with contraction, reassociation and the platform's maths, beside the canonical one."""
    return Refrt(build_host("refrt-fast", "fast"), tmp_path)


@pytest.fixture
def refrt(refrt_program: Path, tmp_path: Path) -> Refrt:
    return Refrt(refrt_program, tmp_path)


def make_one_node(
    op: str,
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    **attributes: object,
) -> onnx.ModelProto:
    constants = constants or {}
    order = sorted({*feeds, *constants})  # inputs are named a, b, c … in the operator's order
    node = helper.make_node(op, order, list(outputs), **attributes)
    element = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(name, element(feed.dtype), feed.shape) for name, feed in feeds.items()]
    initial = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "one", inputs, ends, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


OpCheck = Callable[..., np.ndarray]


@pytest.fixture
def one_node() -> Callable[..., onnx.ModelProto]:
    """``one_node(op, feeds, constants, outputs, opset, **attributes)``: inputs are named a, b, c … in order."""
    return make_one_node


@pytest.fixture
def check_op(refrt: Refrt) -> OpCheck:
    """``check_op(op, {"a": array}, {"b": constant}, ulp=N, opset=N, **attributes)``: run both, compare, give ours.

    Floats may differ by ``ulp`` units in the last place; NaN equals NaN; anything else must be the same.
    """

    def check(
        op: str,
        feeds: Mapping[str, np.ndarray],
        constants: Mapping[str, np.ndarray] | None = None,
        *,
        ulp: int = 0,
        opset: int = 17,
        **attributes: object,
    ) -> np.ndarray:
        model = make_one_node(op, feeds, constants, opset=opset, **attributes)
        export_refrt(model, {}, refrt.folder / "model.refrt")
        got = refrt.run(refrt.folder / "model.refrt", feeds).output("y")
        with np.errstate(all="ignore"):
            (want,) = ReferenceEvaluator(model).run(None, dict(feeds))
        want = np.asarray(want)
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        if ulp:
            finite = np.isfinite(want)
            np.testing.assert_array_equal(got[~finite], want[~finite])
            np.testing.assert_array_max_ulp(got[finite], want[finite], maxulp=ulp)
        else:
            np.testing.assert_array_equal(got, want)
        return got

    return check


#: Values that break careless arithmetic: signed zeros, subnormals, the largest, infinities, NaN.
SPECIAL = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1.1e-38, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 1.0, -3.0, 3.0], dtype=np.float32
)


@pytest.fixture
def special() -> np.ndarray:
    return SPECIAL.copy()


@pytest.fixture
def noise() -> Callable[..., np.ndarray]:
    """``noise(*shape)``: the same normal float32 numbers each time."""

    def make(*shape: int, scale: float = 3.0) -> np.ndarray:
        generator = np.random.default_rng(sum(shape) + 7)
        return (scale * generator.standard_normal(shape)).astype(np.float32)

    return make
