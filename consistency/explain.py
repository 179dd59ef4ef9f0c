"""The reason of a case verdict in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from consistency import words
from consistency.records import (
    CaseStatus,
    Coverage,
    ExpectationOutcome,
    LayerRepeats,
    LayerVerdict,
    SecondOpinion,
    TaskResult,
)
from consistency.repeats import Repeats


@dataclass(frozen=True)
class Findings:
    """What was found about one case, before it is weighed.

    ``first`` first deviating layers · ``layers_gate`` instrumented layers may fail the case · ``observer``
    dumping the layers changed the outputs · ``direct`` layers also seen without changing them, ``None`` when nobody
    tried · ``inner`` how the layers agree with themselves.
    """

    outputs: tuple[LayerVerdict, ...]
    layers: tuple[LayerVerdict, ...]
    first: tuple[str, ...]
    layers_gate: bool
    observer: bool
    repeats: Repeats
    tasks: tuple[TaskResult, ...]
    coverage: Coverage
    direct: frozenset[str] | None = None
    opinion: SecondOpinion | None = None
    inner: LayerRepeats = field(default_factory=LayerRepeats)

    @property
    def comes_and_goes(self) -> bool:
        """A layer is beyond its bounds in some runs only, and nothing else fails."""
        others = any(layer.id not in self.inner.mixed for layer in self.gating)
        wrong = any(out.status in ("fail", "missing") for out in self.outputs) or any(
            task.status == "fail" for task in self.tasks
        )
        return self.layers_gate and self.inner.state == "beyond" and not others and not wrong

    @property
    def deciding(self) -> tuple[LayerVerdict, ...]:
        """The outputs and layers that fail the case, outputs last."""
        return (*self.gating, *(out for out in self.outputs if out.status == "fail"))

    @property
    def golden_suspect(self) -> bool:
        """Nothing speaks against the device but a golden that the other referees do not support."""
        suspect = self.opinion is not None and self.opinion.status == "golden_suspect"
        broken = any(out.status == "missing" for out in self.outputs) or any(t.status == "fail" for t in self.tasks)
        return suspect and not broken

    @property
    def gating(self) -> tuple[LayerVerdict, ...]:
        """The layers that fail the case: seen without changing the result, or alone on the golden's inputs."""
        if self.layers_gate:
            return tuple(layer for layer in self.layers if layer.status == "fail")
        return tuple(layer for layer in self.layers if self._direct(layer) or _fails_alone(layer))

    def _direct(self, layer: LayerVerdict) -> bool:
        return layer.status == "fail" and layer.id in (self.direct or ())


def explain(
    status: CaseStatus,
    findings: Findings,
    expectation: ExpectationOutcome | None,
    *,
    earlier: Sequence[str],
    base_fails_too: bool,
) -> str:
    """One sentence or a few, joined by ``; ``: the cause first, then what qualifies it."""
    parts: list[str] = []
    if expectation is not None and expectation.state != "changed":
        parts.append(expectation.explanation)
    if findings.repeats.state in ("first_run", "beyond", "unknown"):
        parts.append(findings.repeats.explanation)
    if status == "flaky":
        parts.append(findings.inner.explanation)
    if status == "flaky" and earlier:
        parts.append(f"earlier attempts gave {', '.join(earlier)}")
    failures = _failures(findings)
    opinion = findings.opinion.reason if findings.opinion else ""
    if status == "inconclusive" and findings.golden_suspect:
        parts.append(opinion)
    if status in ("fail", "flaky") or (expectation is not None and expectation.state == "known_failure"):
        parts += [*failures, opinion]
    if base_fails_too:
        parts.append("base fails at the same layer, so this commit is not the cause; mend it or accept it as known")
    if status == "not_compared":
        parts += _gaps(findings)
    if status == "pass" and not parts:
        parts.append(_passing(findings))
    return "; ".join(part for part in parts if part) or _passing(findings)


def _failures(findings: Findings) -> list[str]:
    """The first deviating layer, how many inherit, the first non-finite one, outputs, tasks."""
    judged = {layer.id: layer for layer in (*findings.outputs, *findings.layers) if layer.status == "fail"}
    parts: list[str] = []
    first = [judged[name] for name in findings.first if name in judged]
    if first:
        failing = [layer for layer in findings.layers if layer.status == "fail" and layer.id not in findings.first]
        bare = sum(1 for layer in findings.layers if layer.behind is not None)
        parts.append(first[0].reason + words.inherited(sum(1 for layer in failing if not layer.introduced), bare))
        if len(first) > 1:
            parts.append("other first deviating layers: " + ", ".join(f"`{layer.id}`" for layer in first[1:]))
        if own := [f"{layer.op} `{layer.id}`" for layer in failing if layer.introduced]:
            parts.append(f"errors of their own, behind it: {', '.join(own)}")
        infinite = next((layer for layer in findings.layers if layer.metric == "nonfinite"), None)
        if infinite is not None and infinite.id != first[0].id:
            parts.append(f"first non-finite layer is {infinite.op} `{infinite.id}`")
    for out in findings.outputs:
        if out.status == "missing":
            parts.append(f"output `{out.id}` is missing from the plain run")
        elif out.status == "fail" and out.id not in findings.first and not first:
            parts.append(out.reason)
    for task in findings.tasks:
        if task.status == "fail":
            parts.append(f"task `{task.name}` expected {task.expected}, got {task.got}" + _suffix(task.reason))
    return parts


def _fails_alone(layer: LayerVerdict) -> bool:
    """By a run of its own: in a whole model that looking changes, what its inputs held proves nothing."""
    return layer.alone is not None and layer.alone.ran and layer.alone.status == "fail"


def _gaps(findings: Findings) -> list[str]:
    cover = findings.coverage
    parts: list[str] = []
    if cover.paired == 0:
        parts.append(f"nothing was compared: 0 of {cover.expected} layers")
    if cover.missing:
        first = next(layer for layer in findings.layers if layer.status == "missing")
        parts.append(
            f"{cover.missing} of {cover.expected} expected layers are neither reported nor covered, first `{first.id}`"
        )
    if cover.not_compared:
        gap = next(layer for layer in findings.layers if layer.status == "not_compared")
        parts.append(f"{cover.not_compared} layers could not be compared, first `{gap.id}`: {gap.reason}")
    for out in findings.outputs:
        if out.status == "not_compared":
            parts.append(f"output `{out.id}` could not be compared: {out.reason}")
    for task in findings.tasks:
        if task.status not in ("pass", "fail"):
            parts.append(f"task `{task.name}` was not checked" + _suffix(task.reason))
    return parts


def _passing(findings: Findings) -> str:
    text = words.closest(findings.layers)
    if findings.coverage.not_observable:
        text += f"; {findings.coverage.not_observable} of {findings.coverage.expected} layers are not observable"
    failing = [layer for layer in findings.layers if layer.status == "fail"]
    beyond = len(failing)
    if beyond and findings.observer:
        text += f"; dumping changes the result, {beyond} dumped layers are beyond bounds and the plain outputs are not"
    elif beyond:
        text += f"; {beyond} dumped layers are beyond bounds, but plain and dumped runs differ and the outputs agree"
    acquitted = sum(1 for layer in failing if layer.alone is not None and layer.alone.status == "pass")
    if acquitted:
        text += f"; alone on the golden's inputs {acquitted} of them are within their bounds"
    return text


def _suffix(reason: str) -> str:
    return f" ({reason})" if reason else ""
