"""What a runner answers: ``DIR/result.json``, there only when complete.

Exit codes of a runner: 0 done · 2 bad request · 3 model or backend unsupported (named on
stderr) · 4 the runtime failed · anything else is a crash.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from engine.contract.check import Fields, as_digest, as_text
from engine.contract.errors import RunnerNonsense
from engine.contract.request import CONTRACT

PASS_KINDS = ("plain", "instrumented", "isolated")


@dataclass(frozen=True)
class NonFinite:
    """How many elements are NaN, +Inf and -Inf."""

    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0

    @property
    def total(self) -> int:
        """All elements that are no number."""
        return self.nan + self.pos_inf + self.neg_inf


@dataclass(frozen=True)
class RawStats:
    """One tensor against the golden's, accumulated in float64 over pairs that are both finite.

    ``count`` all elements · ``differing`` elements whose bits differ · ``over_bound`` elements
    with ``|got - ref|`` above the requested bound, or non-finite on one side only ·
    ``worst_index`` flat index of ``max_abs`` (-1 when nothing differs) ·
    ``nonfinite_mismatch`` elements where exactly one side is non-finite or the kinds differ.
    """

    count: int
    differing: int
    over_bound: int
    max_abs: float
    worst_index: int
    worst_got: float
    worst_ref: float
    sum_diff: float
    sum_sq_diff: float
    sum_sq_ref: float
    sum_sq_got: float
    dot: float
    nonfinite_mismatch: int


@dataclass(frozen=True)
class LayerRecord:
    """One layer of the instrumented pass. ``covers`` lists original tensors fused into this one and not observable.

    ``isolated`` marks a layer that ran alone on given inputs, outside any pass: its statistics are what it introduces.
    """

    id: str
    op: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    layout: str = "any"
    backend: str = "cpu"
    segment: int = 0
    covers: tuple[str, ...] = ()
    nonfinite: NonFinite = field(default_factory=NonFinite)
    stats: RawStats | None = None
    tensor: str | None = None
    isolated: bool = False


@dataclass(frozen=True)
class OutputRecord:
    """One final output of the plain pass, its bytes in ``path`` below the result folder."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    path: str


@dataclass(frozen=True)
class PassRecord:
    """One pass: the digests of its final outputs, and times in nanoseconds."""

    kind: str
    iteration: int
    outputs: dict[str, str]
    latency_ns: int


@dataclass(frozen=True)
class RunnerInfo:
    """Who answered; ``build`` is free-form, for example ``canonical`` or ``fast``."""

    name: str
    version: str
    build: str
    level: int


@dataclass(frozen=True)
class Effective:
    """What really ran, whatever was asked; ``dispatch`` names the instruction set reached."""

    backend: str
    precision: str
    threads: int
    affinity: str | None
    dispatch: str


@dataclass(frozen=True)
class Result:
    """A complete, checked answer."""

    job: str
    attempt: int
    runner: RunnerInfo
    effective: Effective
    passes: tuple[PassRecord, ...]
    outputs: tuple[OutputRecord, ...]
    layers: tuple[LayerRecord, ...]
    load_ns: int


def parse_result(text: str | bytes) -> Result:
    """Check and build a ``Result``; ``RunnerNonsense`` names the key that breaks the contract."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RunnerNonsense(
            f"result.json is not JSON: {error}", hint="run `lockstep contract check RUNNER` against the runner"
        ) from error
    root = Fields(document, "result")
    if root.integer("contract") != CONTRACT:
        raise RunnerNonsense(f"result.contract is {root.integer('contract')}; this farm speaks {CONTRACT}")
    layers = root.items("layers", _layer, required=False)
    for alone in (False, True):
        _refuse_duplicates([layer.id for layer in layers if layer.isolated is alone], "result.layers")
    outputs = root.items("outputs", _output)
    _refuse_duplicates([output.name for output in outputs], "result.outputs")
    return Result(
        job=root.text("job"),
        attempt=root.integer("attempt"),
        runner=_runner(root.child("runner")),
        effective=_effective(root.child("effective")),
        passes=root.items("passes", _pass),
        outputs=outputs,
        layers=layers,
        load_ns=root.integer("load_ns", default=0, least=0),
    )


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _refuse_duplicates(names: list[str], where: str) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RunnerNonsense(f"{where} names {twice!r} twice")


def _runner(fields: Fields) -> RunnerInfo:
    return RunnerInfo(
        name=fields.text("name"),
        version=fields.text("version"),
        build=fields.text("build", ""),
        level=fields.integer("level", least=0, most=2),
    )


def _effective(fields: Fields) -> Effective:
    return Effective(
        backend=fields.text("backend"),
        precision=fields.text("precision"),
        threads=fields.integer("threads", least=1, most=4096),
        affinity=fields.optional_text("affinity"),
        dispatch=fields.text("dispatch"),
    )


def _pass(value: object, where: str) -> PassRecord:
    fields = Fields(value, where)
    kind = fields.text("kind")
    if kind not in PASS_KINDS:
        raise RunnerNonsense(f"{where}.kind is {kind!r}; known: {', '.join(PASS_KINDS)}")
    return PassRecord(
        kind=kind,
        iteration=fields.integer("iteration", least=0),
        outputs=fields.mapping("outputs", as_digest),
        latency_ns=fields.integer("latency_ns", least=0),
    )


def _output(value: object, where: str) -> OutputRecord:
    fields = Fields(value, where)
    return OutputRecord(
        name=fields.text("name"),
        dtype=fields.text("dtype"),
        shape=fields.shape("shape"),
        digest=as_digest(fields.text("digest"), f"{where}.digest"),
        path=fields.text("path"),
    )


def _layer(value: object, where: str) -> LayerRecord:
    fields = Fields(value, where)
    stats = fields.optional_child("stats")
    nonfinite = fields.optional_child("nonfinite")
    return LayerRecord(
        id=fields.text("id"),
        op=fields.text("op", ""),
        dtype=fields.text("dtype"),
        shape=fields.shape("shape"),
        digest=as_digest(fields.text("digest"), f"{where}.digest"),
        layout=fields.text("layout", "any"),
        backend=fields.text("backend", "cpu"),
        segment=fields.integer("segment", default=0, least=0),
        covers=fields.items("covers", as_text, required=False),
        nonfinite=_nonfinite(nonfinite) if nonfinite else NonFinite(),
        stats=_stats(stats) if stats else None,
        tensor=fields.optional_text("tensor"),
        isolated=fields.flag("isolated"),
    )


def _nonfinite(fields: Fields) -> NonFinite:
    return NonFinite(
        nan=fields.integer("nan", default=0, least=0),
        pos_inf=fields.integer("pos_inf", default=0, least=0),
        neg_inf=fields.integer("neg_inf", default=0, least=0),
    )


def _stats(fields: Fields) -> RawStats:
    return RawStats(
        count=fields.integer("count", least=0),
        differing=fields.integer("differing", least=0),
        over_bound=fields.integer("over_bound", least=0),
        max_abs=fields.number("max_abs"),
        worst_index=fields.integer("worst_index", least=-1),
        worst_got=fields.number("worst_got", 0.0),
        worst_ref=fields.number("worst_ref", 0.0),
        sum_diff=fields.number("sum_diff"),
        sum_sq_diff=fields.number("sum_sq_diff"),
        sum_sq_ref=fields.number("sum_sq_ref"),
        sum_sq_got=fields.number("sum_sq_got"),
        dot=fields.number("dot"),
        nonfinite_mismatch=fields.integer("nonfinite_mismatch", least=0),
    )
