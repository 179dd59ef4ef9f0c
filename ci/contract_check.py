"""Does a runner keep the runner contract? Good and bad questions, each answer checked; docs/bring-your-engine.md."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ci.contract_probe import CONV, OUT, OUTPUT, RELU, Answer, Broken, Probe, make_probe
from engine.contract.dtypes import item_size
from engine.contract.errors import LockstepError, UsageError
from engine.contract.request import GoldenTensor, TensorFile
from engine.contract.result import LayerRecord, Result
from engine.contract.trace import TraceLayer

#: An output further from the golden than this share of its largest value is another function, not rounding.
NEAR = 1e-2


@dataclass(frozen=True)
class CheckResult:
    """One check: its name, whether it holds, and what was seen."""

    name: str
    ok: bool
    detail: str


Check = Callable[[Probe], str]


def check_runner(argv: Sequence[str], model_format: str, scratch: Path) -> list[CheckResult]:
    """All checks of the runner's level, in order. ``scratch`` is an empty folder; everything happens below it."""
    probe = make_probe(argv, model_format, scratch)
    first = _try("a good request is answered", _answers, probe)
    if not first.ok:
        return [first]
    level = probe.good.result().runner.level
    return [first, *(_try(name, check, probe) for name, check in _checks(level))]


def _try(name: str, check: Check, probe: Probe) -> CheckResult:
    try:
        return CheckResult(name, True, check(probe))
    except Broken as broken:
        return CheckResult(name, False, str(broken))
    except UsageError:
        raise
    except LockstepError as error:  # what the runner stated is nothing the contract knows
        return CheckResult(name, False, error.message)


def _checks(level: int) -> Iterator[tuple[str, Check]]:
    yield "outputs are the bytes their digests say", _outputs
    yield "the answer is the model's", _right_answer
    yield "every iteration is reported", _iterations
    yield "progress is JSON lines", _progress
    yield "result.json is there only when complete, and nothing lies outside DIR", _tidy
    yield "a request that is no JSON exits 2", lambda probe: _refused(probe, probe.ask("{"), {2})
    yield "a request of another contract exits 2", _other_contract
    yield "a missing model exits 2", _missing_model
    yield "a truncated model is refused", _truncated_model
    yield "an input of the wrong size is refused", _short_input
    yield "an unknown backend exits 3 and is named", _unknown_backend
    if level >= 1:
        yield "the instrumented pass lists layers", _layers
        yield "kept layers are the bytes their digests say", _kept
        yield "statistics against the golden are right", _statistics
    if level >= 2:
        yield "an isolated layer runs on the given inputs", _isolated


def _answers(probe: Probe) -> str:
    answer = probe.good
    result = answer.result()
    if (result.job, result.attempt) != ("contract-check", 1):
        raise Broken(f"answers job {result.job!r} attempt {result.attempt}, asked 'contract-check' attempt 1")
    if not result.effective.dispatch or not result.effective.backend:
        raise Broken("effective.backend or effective.dispatch is empty: it must say what really ran")
    return f"{result.runner.name} {result.runner.version} {result.runner.build}, level {result.runner.level}"


def _outputs(probe: Probe) -> str:
    answer = probe.good
    result = answer.result()
    names = [output.name for output in result.outputs]
    if names != [OUTPUT]:
        raise Broken(f"outputs are {names}, the model has ['{OUTPUT}']")
    for output in result.outputs:
        answer.tensor(output.path, output.digest, _nbytes(output.dtype, output.shape))
        stated = result.passes[0].outputs.get(output.name) if result.passes else None
        if stated != output.digest:
            raise Broken(f"the plain pass states digest {stated} for {output.name}, outputs state {output.digest}")
    return f"{len(result.outputs)} output"


def _right_answer(probe: Probe) -> str:
    answer = probe.good
    output = next((entry for entry in answer.result().outputs if entry.name == OUTPUT), None)
    if output is None:
        raise Broken(f"there is no output {OUTPUT!r}")
    wanted = probe.golden.tensor(probe.golden.finals[0]).astype(np.float64)
    if (output.dtype, output.shape) != ("float32", wanted.shape):
        raise Broken(
            f"{output.name} is {output.dtype}{list(output.shape)}, the model gives float32{list(wanted.shape)}"
        )
    data = answer.tensor(output.path, output.digest, _nbytes(output.dtype, output.shape))
    got = np.frombuffer(data, dtype="<f4").reshape(wanted.shape).astype(np.float64)
    difference = float(np.max(np.abs(got - wanted)) / np.max(np.abs(wanted)))
    if not difference <= NEAR:
        raise Broken(f"{output.name} differs from ONNX Runtime by {difference:.2g} of its largest value")
    return f"within {difference:.1g} of ONNX Runtime's largest value"


def _iterations(probe: Probe) -> str:
    result = probe.ask(probe.request(iterations=2)).result()
    seen = [(entry.kind, entry.iteration) for entry in result.passes]
    if seen != [("plain", 0), ("plain", 1)]:
        raise Broken(f"two plain iterations were asked, passes are {seen}")
    return "2 of 2"


def _progress(probe: Probe) -> str:
    lines = probe.good.stdout.splitlines()
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            raise Broken(f"stdout holds {line[:80]!r}, not a JSON line; write logs to stderr") from None
    return f"{len(lines)} lines"


def _tidy(probe: Probe) -> str:
    answer = probe.good
    answer.result()
    if answer.torn:
        raise Broken("result.json was seen half-written: write another name, then rename")
    if answer.strays:
        raise Broken(f"files outside DIR were made, changed or removed: {', '.join(answer.strays[:5])}")
    left = [path.name for path in (answer.folder / OUT).rglob("*") if path.name.endswith((".part", ".tmp"))]
    if left:
        raise Broken(f"half files are left in DIR: {', '.join(left[:5])}")
    return "clean"


def _refused(probe: Probe, answer: Answer, codes: set[int]) -> str:
    del probe
    answer.expect(codes)
    if answer.has_result:
        raise Broken("the request was refused, yet DIR/result.json is there")
    if not answer.stderr.strip():
        raise Broken(f"exit code {answer.exit_code} without a word on stderr")
    return f"exit code {answer.exit_code}: {answer.stderr.decode(errors='replace').strip().splitlines()[-1][:100]}"


def _other_contract(probe: Probe) -> str:
    return _refused(probe, probe.ask(probe.request(contract=99)), {2})


def _missing_model(probe: Probe) -> str:
    request = probe.request()
    absent = dataclasses.replace(request.model, path="absent")
    return _refused(probe, probe.ask(dataclasses.replace(request, model=absent)), {2})


def _truncated_model(probe: Probe) -> str:
    data = probe.model.read_bytes()
    for size in (0, len(data) // 2, len(data) - 1):
        detail = _refused(probe, probe.ask(_with_hash(probe, data[:size]), model=data[:size]), {2, 3, 4})
    return detail


def _with_hash(probe: Probe, data: bytes) -> str:
    """The request as text, its sha256 that of the cut model: the model itself must be found wanting."""
    request = probe.request()
    model = dataclasses.replace(request.model, sha256=hashlib.sha256(data).hexdigest())
    return dataclasses.replace(request, model=model).to_json()


def _short_input(probe: Probe) -> str:
    return _refused(probe, probe.ask(probe.request(), files={"x.bin": bytes(12)}), {2, 4})


def _unknown_backend(probe: Probe) -> str:
    answer = probe.ask(probe.request(backend="abacus"))
    detail = _refused(probe, answer, {3})
    if b"abacus" not in answer.stderr:
        raise Broken("exit code 3, but stderr does not name the backend 'abacus'")
    return detail


def _layers(probe: Probe) -> str:
    result = probe.ask(probe.request(passes=("plain", "instrumented"))).result()
    if "instrumented" not in {entry.kind for entry in result.passes}:
        raise Broken("level 1 is promised, yet there is no instrumented pass")
    order = [layer.id for layer in probe.golden.layers]
    seen = [layer.id for layer in result.layers]
    unknown = [name for name in seen if name not in order and name not in probe.golden.constant]
    if unknown:
        raise Broken(f"layer {unknown[0]!r} is no tensor of the model; a layer's id is its original ONNX output name")
    known = [name for name in seen if name in order]
    if not known:
        raise Broken("level 1 is promised, yet no layer of the model is listed")
    if known != sorted(known, key=order.index):
        raise Broken(f"layers are not in the model's order: {known}")
    _agree(probe, result)
    return f"{len(known)} of {len(order)} layers observable"


def _agree(probe: Probe, result: Result) -> None:
    by_id = probe.golden.by_id()
    for layer in result.layers:
        golden = by_id.get(layer.id)
        if golden and (layer.dtype, layer.shape) != (golden.dtype, golden.shape):
            raise Broken(
                f"layer {layer.id!r} is {layer.dtype}{list(layer.shape)}, not {golden.dtype}{list(golden.shape)}"
            )


def _observable(probe: Probe) -> list[str]:
    result = probe.ask(probe.request(passes=("instrumented",))).result()
    observable = [layer.id for layer in result.layers if layer.id in probe.golden.by_id() and layer.dtype == "float32"]
    if not observable:
        raise Broken("no layer of the model is listed")
    return observable


def _kept(probe: Probe) -> str:
    wanted = _observable(probe)[:2]
    answer = probe.ask(probe.request(passes=("instrumented",), keep=tuple(wanted)))
    kept = {layer.id: layer for layer in answer.result().layers if layer.tensor}
    if sorted(kept) != sorted(wanted):
        raise Broken(f"tensors of {sorted(wanted)} were asked, those of {sorted(kept)} are named")
    for layer in kept.values():
        answer.tensor(str(layer.tensor), layer.digest, _nbytes(layer.dtype, layer.shape))
    return ", ".join(kept)


def _statistics(probe: Probe) -> str:
    """Against the runner's own tensor with one element moved by 1, every statistic is known beforehand."""
    name = _observable(probe)[0]
    answer = probe.ask(probe.request(passes=("instrumented",), keep=(name,)))
    layer = _layer(answer.result(), name)
    own = np.frombuffer(answer.tensor(str(layer.tensor), layer.digest, _nbytes(layer.dtype, layer.shape)), dtype="<f4")
    moved = own.copy()
    moved[own.size // 2] += np.float32(1.0)
    golden = {name: GoldenTensor("golden.bin", "float32", layer.shape, 0.5)}
    request = probe.request(passes=("instrumented",), golden=golden)
    stats = _layer(probe.ask(request, files={"golden.bin": moved.tobytes()}).result(), name).stats
    if stats is None:
        raise Broken(f"the golden of {name!r} was sent, yet its layer carries no stats")
    step = float(moved[own.size // 2]) - float(own[own.size // 2])
    wanted = {"count": own.size, "differing": 1, "over_bound": 1, "worst_index": own.size // 2, "nonfinite_mismatch": 0}
    for key, value in wanted.items():
        if getattr(stats, key) != value:
            raise Broken(f"stats.{key} of {name!r} is {getattr(stats, key)}, it must be {value}")
    sums = {"max_abs": step, "sum_sq_diff": step * step, "sum_sq_got": float(np.sum(own.astype(np.float64) ** 2))}
    for key, number in sums.items():
        if not np.isclose(getattr(stats, key), number, rtol=1e-9):
            raise Broken(f"stats.{key} of {name!r} is {getattr(stats, key)!r}, it must be {number!r}")
    return f"{name}: 1 of {own.size} elements moved by 1, found"


def _isolated(probe: Probe) -> str:
    golden = probe.golden.by_id()
    source: TraceLayer = golden[CONV]
    given = TensorFile(CONV, source.dtype, source.shape, "isolated.bin", "")
    request = probe.request(passes=(), isolated={RELU: {CONV: given}})
    result = probe.ask(request, files={"isolated.bin": probe.golden.tensor_path(source).read_bytes()}).result()
    alone = [layer for layer in result.layers if layer.isolated and layer.id == RELU]
    if len(alone) != 1:
        raise Broken(f"{RELU!r} was to run alone; {len(alone)} isolated layers carry its id")
    if alone[0].digest != golden[RELU].digest:
        raise Broken(f"{RELU!r} alone on the golden's input gives other bits than a Relu can")
    return RELU


def _layer(result: Result, name: str) -> LayerRecord:
    for layer in result.layers:
        if layer.id == name:
            return layer
    raise Broken(f"layer {name!r} was listed before and is absent now")


def _nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    return item_size(dtype) * int(np.prod(shape, dtype=np.int64))
