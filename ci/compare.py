"""``lockstep compare``: two captures in, one verdict out; pairing is by provenance, never by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ci.captures import Capture, Meta, declare, read_capture
from ci.captures.meta import check_names
from ci.partners import Fused, covered, partners
from consistency.pairing import DECLARED, ONLY, paired_by_name
from consistency.tensors import (
    Tensor,
    TensorVerdict,
    behind_first_step,
    compare_tensors,
    constant_over_steps,
    first_step,
    flagged,
    in_steps,
    localise_tensors,
    series_of,
)
from consistency.thresholds import Profile
from engine.contract.errors import ModelError


@dataclass(frozen=True)
class Comparison:
    """``layers`` in the reference's order, those only in B last; ``reasons`` say why it is no pass."""

    a: Path
    b: Path
    profile: str
    status: str
    exit_code: int
    reasons: tuple[str, ...]
    layers: tuple[TensorVerdict, ...]

    @property
    def coverage(self) -> dict[str, int]:
        """How many layers of either side were compared, and what became of the rest."""
        counts = Counter(layer.status for layer in self.layers)
        return {
            "expected": len(self.layers) - counts["extra"],
            "compared": counts["pass"] + counts["fail"],
            "missing": counts["missing"],
            "extra": counts["extra"],
            "not_compared": counts["not_compared"],
            "not_observable": counts["not_observable"],
        }


def compare_captures(
    a: Path,
    b: Path,
    profile: Profile,
    *,
    meta: Meta | None = None,
    meta_source: Path = Path(),
    allow_extra: bool = False,
) -> Comparison:
    """Judge capture ``b`` by reference ``a``.

    ``meta_source`` names the declarations in errors; ``allow_extra``: B may hold layers that A has not. Errors
    of the files are ``UsageError``, ``ModelError`` or ``ConfigError``.
    """
    with read_capture(a) as reference, read_capture(b) as judged:
        declared = meta or Meta()
        check_names(declared, meta_source, reference.tensors, judged.tensors)
        return compare_open(reference, judged, profile, meta=declared, allow_extra=allow_extra)


def compare_open(
    reference: Capture, judged: Capture, profile: Profile, *, meta: Meta | None = None, allow_extra: bool = False
) -> Comparison:
    """Judge a capture that is open, or was never in a file, by another; otherwise as ``compare_captures``."""
    layers = _judge(reference, judged, meta or Meta(), profile)
    try:
        told = localise_tensors(
            [layer for layer, _ in layers], profile.base, {layer.name: dtype for layer, dtype in layers if dtype}
        )
    except ValueError as error:
        raise ModelError(
            f"{reference.source}: {error}", hint="the graph of a reference has no cycles; capture it again"
        ) from error
    told = behind_first_step(told)
    status, code, reasons = _outcome(told, allow_extra=allow_extra)
    return Comparison(reference.source, judged.source, profile.name, status, code, reasons, told)


def _judge(reference: Capture, judged: Capture, declared: Meta, profile: Profile) -> list[tuple[TensorVerdict, str]]:
    """A verdict on each name of either side, and the dtype in which it arrived."""
    known = partners(reference, judged, declared)
    dtypes: dict[str, str] = {}

    def compare(name: str, other: str) -> TensorVerdict:
        verdict, dtypes[name], op = _pair(reference, judged, name, other, declared, profile)
        paired = DECLARED if name in known.declared else ONLY if known.only else paired_by_name(verdict.op, op)
        return replace(verdict, paired=paired, other=other)

    layers = []
    for name in in_steps(reference.tensors):
        load = reference.tensors[name]
        if name in known.partner:
            layers.append(compare(name, known.partner[name]))
        elif name in known.covered:
            layers.append(covered(load(), known.covered[name]))
        else:
            layers.append(_missing(reference, name))
    if any(layer.inputs for layer in layers):
        layers = Fused(layers, compare).told()
    layers = _over_steps(reference, judged, layers, declared, profile)
    layers += [TensorVerdict(name, "extra", "not in A, the reference") for name in known.extra]
    return [(layer, dtypes.get(layer.name, "")) for layer in layers]


def _over_steps(
    reference: Capture, judged: Capture, layers: list[TensorVerdict], meta: Meta, profile: Profile
) -> list[TensorVerdict]:
    """``layers``, those flagged that B gives alike at every step while A's vary."""
    paired = {layer.name: layer for layer in layers if layer.paired is not None}

    def load(name: str) -> tuple[Tensor, Tensor]:
        other = paired[name].other
        return declare(reference.tensors[name](), meta.of("A", name)), declare(
            judged.tensors[other](), meta.of("B", other)
        )

    constant: dict[str, str] = {}
    for names in series_of(paired).values():
        why = constant_over_steps([partial(load, name) for name in names], profile)
        constant |= dict.fromkeys(names, why) if why else {}
    return [flagged(layer, constant[layer.name]) if layer.name in constant else layer for layer in layers]


def as_document(comparison: Comparison) -> dict[str, Any]:
    """The document of ``--json``: no NaN and no Infinity, ``null`` with a reason instead."""
    return {
        "status": comparison.status,
        "exit_code": comparison.exit_code,
        "reasons": list(comparison.reasons),
        "profile": comparison.profile,
        "coverage": comparison.coverage,
        "first_deviating_step": first_step(comparison.layers),
        "first_deviating_layers": [layer.name for layer in comparison.layers if layer.introduced],
        "layers": [
            {
                "name": layer.name,
                "status": layer.status,
                "reason": layer.reason,
                "metrics": dict(layer.metrics) if layer.metrics is not None else None,
                "paired": _paired(layer),
            }
            for layer in comparison.layers
        ],
    }


def _paired(layer: TensorVerdict) -> dict[str, Any] | None:
    if layer.paired is None:
        return None
    return {"with": layer.other, "by": layer.paired.by, "confidence": layer.paired.confidence}


def _pair(
    reference: Capture, judged: Capture, name: str, other: str, meta: Meta, profile: Profile
) -> tuple[TensorVerdict, str, str]:
    """The verdict on A's ``name`` against B's ``other``, and the dtype and operator that B tells."""
    ref = declare(reference.tensors[name](), meta.of("A", name))
    got = declare(judged.tensors[other](), meta.of("B", other))
    return compare_tensors(ref, replace(got, name=name), profile), got.dtype, got.op


def _missing(reference: Capture, name: str) -> TensorVerdict:
    """A layer without a partner keeps its place in the graph: what it hides is downstream of it."""
    held = reference.tensors[name]()
    return TensorVerdict(
        name, "missing", "not in B", op=held.op, dtype=held.dtype, shape=held.shape, inputs=held.inputs
    )


def _outcome(layers: tuple[TensorVerdict, ...], *, allow_extra: bool) -> tuple[str, int, tuple[str, ...]]:
    """1 when a layer fails, 3 when something was not compared, 0 only when everything was."""
    counts: Mapping[str, int] = Counter(layer.status for layer in layers)
    reasons = []
    if counts["fail"]:
        reasons.append(f"{counts['fail']} of {_layers(counts['fail'] + counts['pass'])} that were compared disagree")
        if (step := first_step(layers)) is not None:
            reasons.append(f"step {step} is the first that disagrees")
    if not counts["pass"] + counts["fail"]:
        reasons.append("nothing was compared")
    if counts["missing"]:
        reasons.append(f"{_layers(counts['missing'])} of A not in B")
    if counts["extra"] and not allow_extra:
        reasons.append(f"{_layers(counts['extra'])} of B not in A (--allow-extra takes them as harmless)")
    if counts["not_compared"]:
        reasons.append(f"{_layers(counts['not_compared'])} could not be compared")
    if counts["fail"]:
        return "fail", 1, tuple(reasons)
    return ("incomplete", 3, tuple(reasons)) if reasons else ("pass", 0, ())


def _layers(count: int) -> str:
    return f"{count} layer{'' if count == 1 else 's'}"
