"""Ask a runner one question in a folder of its own and note everything it does there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine.contract.errors import LockstepError, UsageError
from engine.contract.names import inside
from engine.contract.request import ModelFile, Request, TensorFile
from engine.contract.result import Result, parse_result
from engine.contract.trace import Trace
from engine.digest import bytes_digest, file_sha256
from engine.models.golden import golden_trace
from engine.models.graph import read_model

SECONDS = 60.0
OUT = "out"
CONV, RELU, FLAT, OUTPUT = "/block.0/Conv_output_0", "relu:0", "flat", "scores"


class Broken(Exception):
    """The runner broke the contract; the words say how."""


@dataclass(frozen=True)
class Answer:
    """What came of one question. ``exit_code`` is None when the runner hung, negative for a signal."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    folder: Path
    torn: bool
    strays: tuple[str, ...]

    @property
    def has_result(self) -> bool:
        """Whether ``result.json`` is there."""
        return (self.folder / OUT / "result.json").is_file()

    def result(self) -> Result:
        """The checked result of a run that must have worked."""
        self.expect({0})
        if not self.has_result:
            raise Broken("exit code 0, but DIR/result.json is not there")
        try:
            return parse_result((self.folder / OUT / "result.json").read_bytes())
        except LockstepError as error:
            raise Broken(error.message) from error

    def expect(self, codes: set[int]) -> None:
        """The exit code must be one of ``codes``."""
        if self.exit_code in codes:
            return
        wanted = " or ".join(str(code) for code in sorted(codes))
        if self.exit_code is None:
            raise Broken(f"no answer within {SECONDS:.0f} s; exit code {wanted} expected")
        how = f"signal {-self.exit_code}" if self.exit_code < 0 else f"exit code {self.exit_code}"
        tail = self.stderr.decode(errors="replace").strip()[-300:]
        raise Broken(f"{how}, {wanted} expected{f'; stderr: {tail}' if tail else '; stderr is empty'}")

    def tensor(self, path: str, digest: str, nbytes: int) -> bytes:
        """The bytes of a tensor the result names; size and digest must be what it states."""
        try:
            data = inside(self.folder / OUT, path).read_bytes()
        except LockstepError as error:
            raise Broken(error.message) from error
        except OSError as error:
            raise Broken(f"{path} is named in the result but cannot be read: {error.strerror}") from error
        if len(data) != nbytes:
            raise Broken(f"{path} holds {len(data)} bytes, its dtype and shape need {nbytes}")
        if bytes_digest(data) != digest:
            raise Broken(f"{path} has digest {bytes_digest(data)}, the result states {digest}")
        return data


@dataclass(frozen=True)
class Probe:
    """A runner, a tiny model it is asked about, and the golden trace of that model."""

    argv: tuple[str, ...]
    scratch: Path
    model: Path
    model_format: str
    input: np.ndarray
    golden: Trace

    def request(self, **changes: object) -> Request:
        """A good request, with changes."""
        sha256 = file_sha256(self.model)
        given = TensorFile("x", "float32", self.input.shape, "x.bin", "")
        good = Request("contract-check", 1, ModelFile("model", sha256, self.model_format), (given,), passes=("plain",))
        return replace(good, **changes)  # type: ignore[arg-type]

    @cached_property
    def good(self) -> Answer:
        """The answer to the plain good request."""
        return self.ask(self.request())

    def ask(
        self, request: Request | str, files: Mapping[str, bytes] | None = None, model: bytes | None = None
    ) -> Answer:
        """Run ``RUNNER run --request request.json --out out`` in a new folder that holds model, input and ``files``."""
        folder = Path(tempfile.mkdtemp(prefix="ask-", dir=self.scratch))
        text = request if isinstance(request, str) else request.to_json()
        (folder / "request.json").write_text(text)
        (folder / "model").write_bytes(self.model.read_bytes() if model is None else model)
        (folder / "x.bin").write_bytes(self.input.astype("<f4").tobytes())
        for name, data in (files or {}).items():
            (folder / name).write_bytes(data)
        before = _listing(folder)
        exit_code, torn, stdout, stderr = self._run(folder)
        after = {name: mark for name, mark in _listing(folder).items() if Path(name).parts[0] != OUT}
        strays = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        return Answer(exit_code, stdout, stderr, folder, torn, tuple(strays))

    def _run(self, folder: Path) -> tuple[int | None, bool, bytes, bytes]:
        home = self.scratch / "home"
        home.mkdir(exist_ok=True)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "TMPDIR": str(home)}
        command = [*self.argv, "run", "--request", "request.json", "--out", OUT]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(
                    command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise UsageError(
                    f"{self.argv[0]}: cannot be started: {error.strerror}",
                    hint="give the runner's path, then its arguments",
                ) from error
            try:
                exit_code, torn = _watch(process, folder / OUT / "result.json")
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            err.seek(0)
            return exit_code, torn, out.read(1 << 20), err.read(1 << 20)


def _watch(process: subprocess.Popen[bytes], result: Path) -> tuple[int | None, bool]:
    """Exit code (None when it hung), and whether a half-written result was ever seen under its final name."""
    deadline = time.monotonic() + SECONDS
    while True:
        exit_code = process.poll()
        if exit_code is None and _half_written(result):
            return exit_code if process.poll() is None and _ended(process, deadline) else process.returncode, True
        if exit_code is not None:
            return exit_code, False
        if time.monotonic() > deadline:
            return None, False
        time.sleep(0.001)


def _ended(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait for the end; True when it did not come."""
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return True
    return False


def _half_written(result: Path) -> bool:
    try:
        json.loads(result.read_bytes())
    except FileNotFoundError:
        return False
    except (ValueError, OSError):
        return True
    return False


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file, by relative path."""
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in files}


def make_probe(argv: Sequence[str], model_format: str, scratch: Path) -> Probe:
    """The tiny model, in the runner's format, and its golden trace."""
    given = np.linspace(-1.0, 1.0, 2 * 6 * 5, dtype=np.float32).reshape(1, 2, 6, 5)
    scratch.mkdir(parents=True, exist_ok=True)
    source = scratch / "tiny.onnx"
    source.write_bytes(tiny_model().SerializeToString())
    golden = golden_trace(source, {"x": given}, scratch)
    model = source if model_format == "onnx" else _exported(source, given.shape, scratch)
    return Probe(tuple(_placed(word) for word in argv), scratch, model, model_format, given, golden)


def _exported(source: Path, shape: tuple[int, ...], scratch: Path) -> Path:
    from engine.models.export import export_refrt  # noqa: PLC0415 - only runners of the flat file need it

    target = scratch / "tiny.refrt"
    export_refrt(read_model(source), {"x": shape}, target)
    return target


def _placed(word: str) -> str:
    """A path seen from here must hold in the runner's folder; links stay links (an environment's python is one)."""
    return str(Path(word).absolute()) if Path(word).is_file() else word


def tiny_model() -> onnx.ModelProto:
    """x [1, 2, 6, 5] → Conv 3x3 → Relu → Reshape → MatMul with a constant → scores [1, 4]."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], [CONV], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [CONV], [RELU]),
        helper.make_node("Reshape", [RELU, "shape"], [FLAT]),
        helper.make_node("MatMul", [FLAT, "m"], [OUTPUT]),
    ]
    waves = {"w": (3, 2, 3, 3), "b": (3,), "m": (90, 4)}
    initial = [numpy_helper.from_array(_wave(shape), name) for name, shape in waves.items()]
    initial.append(numpy_helper.from_array(np.array([1, 90], dtype=np.int64), "shape"))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 5])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, 4])],
        initial,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


def _wave(shape: tuple[int, ...]) -> np.ndarray:
    """Values between -1 and 1 without a pattern that a transposed read would keep."""
    index = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((index * 7919 + 13) % 201 - 100) / 100.0).astype(np.float32).reshape(shape)
