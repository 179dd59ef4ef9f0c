"""The second referee is asked: ONNX's reference evaluator, where canonical disagrees with the golden too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ci.prepare import PreparedCase
from consistency.metrics import stats_from_arrays
from consistency.records import CaseVerdict, ObservedLayer, ReferenceLayer, Stats, Witnesses
from consistency.second import disputed
from consistency.thresholds import absolute_bound
from consistency.thresholds import profile as profile_of
from engine.contract.errors import LockstepError
from engine.contract.result import RawStats
from engine.contract.trace import Trace, TraceLayer
from engine.digest import file_sha256
from engine.models.evaluated import Evaluation, evaluated_trace
from engine.places import cache_root
from engine.runtimes.onnx_reference import OUT_OF_TIME
from farm.evidence import as_observed, reference_layers, stats_by_canonical
from farm.outputs import output_array

#: Wall seconds that the evaluator may take for one case; what it has not computed by then it has no opinion of.
SECONDS = 60.0

Evaluate = Callable[[Path, str, Mapping[str, Any], Sequence[str], Path, float], Evaluation]


@dataclass(frozen=True)
class SecondReferee:
    """Asks for the layers in question only, and only once: traces are kept by content, a timeout by case."""

    seconds: float = SECONDS
    evaluate: Evaluate = evaluated_trace
    _late: dict[str, Evaluation] = field(default_factory=dict)
    _broken: dict[str, str] = field(default_factory=dict)

    def witnesses(
        self,
        prepared: PreparedCase,
        canonical: Trace | None,
        verdict: CaseVerdict,
        reference: Sequence[ReferenceLayer],
        answer: Mapping[str, Any],
    ) -> Witnesses | None:
        """What the other referees know of the failing layers; ``None`` when canonical supports the golden there."""
        rules = profile_of(verdict.profile)
        failing = [layer for layer in (*verdict.layers, *verdict.outputs) if layer.status == "fail" and layer.observed]
        names = disputed(rules, reference, (layer.id for layer in failing))
        if canonical is None or not names:
            return None
        measured = stats_by_canonical(answer) | self._outputs(names, canonical, answer)
        heard = Witnesses(canonical=_as_references(canonical, names), measured=measured)
        return self._with_evaluator(heard, prepared, canonical, names, verdict.profile)

    def _with_evaluator(
        self, heard: Witnesses, prepared: PreparedCase, canonical: Trace, names: Sequence[str], profile: str
    ) -> Witnesses:
        found = self._evaluated(prepared, names)
        if isinstance(found, str):
            return replace(heard, lacking=dict.fromkeys(names, found))
        told = _Told(profile, prepared.golden, canonical, found.trace)
        return replace(
            heard,
            evaluator={layer.id: told.as_reference(layer) for layer in found.trace.layers},
            evaluator_seen={layer.id: told.as_seen(layer) for layer in found.trace.layers},
            lacking=found.lacking,
            name=found.trace.producer,
        )

    def _evaluated(self, prepared: PreparedCase, names: Sequence[str]) -> Evaluation | str:
        """The evaluator's layers; why there are none, when it broke down: the failure stands then."""
        case = prepared.case.id
        if case in self._broken:
            return self._broken[case]
        if case in self._late:
            late = self._late[case]
            known = {*late.trace.by_id(), *late.lacking}
            return replace(late, lacking={**late.lacking, **dict.fromkeys(set(names) - known, OUT_OF_TIME)})
        arrays = {name: entry.array() for name, entry in prepared.inputs.items()}
        folder = cache_root() / "references" / "evaluator"
        try:
            found = self.evaluate(prepared.onnx, file_sha256(prepared.onnx), arrays, names, folder, self.seconds)
        except LockstepError as error:
            self._broken[case] = error.message
            return error.message
        if any(OUT_OF_TIME in reason for reason in found.lacking.values()):
            self._late[case] = found
        return found

    @staticmethod
    def _outputs(names: Sequence[str], canonical: Trace, answer: Mapping[str, Any]) -> dict[tuple[str, str], Stats]:
        """The final outputs against canonical: their bytes are here."""
        known = canonical.by_id()
        measured = {}
        for record in answer["outputs"]:
            layer = known.get(str(record["name"]))
            if layer is None or layer.id not in names or not record.get("blob"):
                continue
            array = output_array(record, ())
            if array is not None and (array.dtype.name, array.shape) == (layer.dtype, layer.shape):
                measured[layer.id, str(record["digest"])] = stats_from_arrays(array, canonical.tensor(layer), 0.0)
        return measured


@dataclass(frozen=True)
class _Told:
    """The evaluator's layers beside the golden's and canonical's, all of one case."""

    profile: str
    golden: Trace
    canonical: Trace
    trace: Trace

    def as_reference(self, layer: TraceLayer) -> ReferenceLayer:
        """The evaluator where the golden stands otherwise, with what canonical makes of it."""
        one = replace(self.trace, layers=(layer,))
        other = self.canonical.by_id().get(layer.id)
        if other is None:
            return reference_layers(one, None)[0]
        stats = self._stats(self.canonical, other, self.trace, layer)
        compared = replace(other, stats=RawStats(**asdict(stats)) if stats else None)
        return reference_layers(one, replace(self.canonical, layers=(compared,)))[0]

    def as_seen(self, layer: TraceLayer) -> ObservedLayer:
        """The evaluator as if a device had shown it, against the golden."""
        return as_observed(layer, self._stats(self.trace, layer, self.golden, self.golden.by_id()[layer.id]))

    def _stats(self, trace: Trace, layer: TraceLayer, other: Trace, against: TraceLayer) -> Stats | None:
        """``layer`` of ``trace`` compared with ``against`` of ``other``; ``None`` when they are unlike."""
        if (layer.dtype, layer.shape) != (against.dtype, against.shape):
            return None
        reference = reference_layers(replace(other, layers=(against,)), None)[0]
        bound = absolute_bound(profile_of(self.profile), reference)
        return stats_from_arrays(trace.tensor(layer), other.tensor(against), bound)


def _as_references(canonical: Trace, names: Sequence[str]) -> dict[str, ReferenceLayer]:
    """Canonical where the golden stands otherwise."""
    chosen = tuple(layer for layer in canonical.layers if layer.id in names)
    return {layer.id: layer for layer in reference_layers(replace(canonical, layers=chosen), None)}
