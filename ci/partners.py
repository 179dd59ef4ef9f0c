"""Which tensor of B is which of A: by what a converter recorded, by name, and through fused layers by their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ci.captures import Capture, Meta
from consistency.pairing import SURVIVOR
from consistency.tensors import Tensor, TensorVerdict, step_of

#: Layers behind a failing one that are tried for its values: a convolution, its scale, shift and activation.
CHAIN = 4

Compare = Callable[[str, str], TensorVerdict]
"""The verdict on A's tensor of the first name against B's of the second."""


@dataclass(frozen=True)
class Partners:
    """``partner`` A's name → B's; ``covered`` A's name → B's tensor that it was fused into; ``extra`` of B alone."""

    partner: Mapping[str, str]
    covered: Mapping[str, str]
    extra: tuple[str, ...]
    declared: frozenset[str] = frozenset()
    only: bool = False


def partners(reference: Capture, judged: Capture, meta: Meta) -> Partners:
    """What is known before a value is looked at: what was declared, then equal names. Never positions."""
    declared = {told.of: name for name, told in meta.B.items() if told.of is not None}
    taken = set(declared.values())
    if reference.one_tensor and judged.one_tensor:
        (mine,), (theirs,) = reference.tensors, judged.tensors
        return Partners({mine: theirs}, {}, (), only=mine != theirs)
    named = {name: name for name in reference.tensors if name in judged.tensors and name not in taken}
    partner = _by_step(reference, judged, named | declared) | named | declared
    covered = {other: name for name, told in meta.B.items() for other in told.covers if other not in partner}
    extra = tuple(sorted(set(judged.tensors) - set(partner.values())))
    return Partners(partner, covered, extra, frozenset(declared), only=False)


def _by_step(reference: Capture, judged: Capture, known: Mapping[str, str]) -> dict[str, str]:
    """Names that differ only in how they write their step (``step-3/x``, ``iter_03/x``), where that is no guess."""
    taken = set(known.values())
    mine = _steps(name for name in reference.tensors if name not in known)
    theirs = _steps(name for name in judged.tensors if name not in taken)
    return {names[0]: theirs[key][0] for key, names in mine.items() if len(names) == len(theirs.get(key, ())) == 1}


def _steps(names: Iterable[str]) -> dict[tuple[int, str], list[str]]:
    found: dict[tuple[int, str], list[str]] = {}
    for name in names:
        if (step := step_of(name)) is not None:
            found.setdefault(step, []).append(name)
    return found


@dataclass
class Fused:
    """Finds fused layers in the verdicts of a capture that carries the graph."""

    verdicts: Sequence[TensorVerdict]
    compare: Compare
    by_name: dict[str, TensorVerdict] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {verdict.name: verdict for verdict in self.verdicts}
        for verdict in self.verdicts:
            for name in verdict.inputs:
                self.readers.setdefault(name, []).append(verdict.name)

    def told(self) -> list[TensorVerdict]:
        """The verdicts, fused layers told from layers that are wrong or absent."""
        found = dict(self.by_name)
        for verdict in self.verdicts:
            if verdict.status == "fail" and verdict.paired is not None:
                found |= self._survivor(verdict)
        return [self._hinted(found[verdict.name], found) for verdict in self.verdicts]

    def _survivor(self, verdict: TensorVerdict) -> dict[str, TensorVerdict]:
        """``verdict`` and those behind it, if B holds a later layer's values under this name."""
        chain = self._behind(verdict.name)
        for length, name in enumerate(chain, 1):
            if self.by_name[name].status != "missing":
                return {}
            found = self.compare(name, verdict.other)
            if found.status == "pass":
                reason = f"B holds it under the name `{verdict.other}`: fused"
                kept = replace(found, paired=SURVIVOR, other=verdict.other, reason=_joined(found.reason, reason))
                hidden = (verdict, *(self.by_name[other] for other in chain[: length - 1]))
                return {name: kept} | {layer.name: _hidden(layer, f"fused into `{name}`") for layer in hidden}
        return {}

    def _behind(self, name: str) -> list[str]:
        """The layers behind ``name``, each the only reader of the one before."""
        chain: list[str] = []
        while len(chain) < CHAIN and len(self.readers.get(name, ())) == 1:
            name = self.readers[name][0]
            chain.append(name)
        return chain

    def _hinted(self, verdict: TensorVerdict, found: Mapping[str, TensorVerdict]) -> TensorVerdict:
        """A missing layer that only leads to one that is there may be fused into it: said, never taken for equal."""
        if verdict.status != "missing":
            return verdict
        for name in self._behind(verdict.name):
            if found[name].paired is not None:
                hint = f"perhaps fused into `{name}`, which alone reads it (declare covers in --meta)"
                return replace(verdict, reason=f"{verdict.reason}; {hint}")
        return verdict


def covered(held: Tensor, by: str) -> TensorVerdict:
    """The verdict on a tensor that was declared to be fused into B's tensor ``by``."""
    verdict = TensorVerdict(
        held.name, "missing", "", op=held.op, dtype=held.dtype, shape=held.shape, inputs=held.inputs
    )
    return _hidden(verdict, f"fused into `{by}` of B, as declared")


def _hidden(verdict: TensorVerdict, why: str) -> TensorVerdict:
    return replace(
        verdict,
        status="not_observable",
        reason=f"{why}: not observable",
        metrics=None,
        metric="",
        paired=None,
        other="",
    )


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
