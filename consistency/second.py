"""The second referee: is it the device that is wrong, or the golden?

The golden is ONNX Runtime, and ONNX Runtime has faults too (a saturating 8-bit kernel, say). Where a device is beyond
the golden's bound and canonical is too, ONNX's reference evaluator is heard. The golden is outvoted at a layer when the
device agrees with canonical and with the evaluator, and both of them are beyond the golden's bound. Canonical alone
does not acquit: it is built from the tree under test, and a fault of its own would be shared by every device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from consistency import words
from consistency.judge_layer import LayerJudge
from consistency.records import (
    LayerOpinion,
    LayerVerdict,
    ObservedLayer,
    ReferenceLayer,
    SecondOpinion,
    Witnesses,
)
from consistency.thresholds import Profile


def disputed(profile: Profile, reference: Iterable[ReferenceLayer], failing: Iterable[str]) -> tuple[str, ...]:
    """The layers of ``failing`` at which canonical is beyond the golden's bound as well, in their order.

    None for a bit-exact profile, whose reference is canonical itself.
    """
    if profile.bitexact:
        return ()
    layers = {layer.id: layer for layer in reference}
    judge = LayerJudge(profile, layers)
    return tuple(name for name in dict.fromkeys(failing) if _canonical_differs(judge, layers[name]))


def second_opinion(
    profile: Profile, reference: Sequence[ReferenceLayer], failing: Sequence[LayerVerdict], witnesses: Witnesses
) -> SecondOpinion | None:
    """What the referees say of the ``failing`` layers and outputs that decide a case.

    ``None`` when canonical supports the golden at all of them: there is nothing to ask then.
    """
    names = set(disputed(profile, reference, (verdict.id for verdict in failing if verdict.observed)))
    if not names:
        return None
    layers = {layer.id: layer for layer in reference}
    bench = _Bench(profile, layers, witnesses)
    opinions = list({v.id: bench.hear(v) for v in failing if v.id in names and v.observed is not None}.values())
    others = [verdict for verdict in failing if verdict.id not in names]
    outvoted = [opinion for opinion in opinions if opinion.outvoted]
    open_ = [opinion for opinion in opinions if not opinion.outvoted]
    if not open_ and not others:
        return SecondOpinion("golden_suspect", tuple(opinions), witnesses.name, _suspect(outvoted))
    if outvoted:
        first = open_[0].reason if open_ else f"canonical agrees with the golden at `{others[0].id}`"
        reason = f"the golden is outvoted at {_named(outvoted)}, but not everywhere: {first}"
        return SecondOpinion("undecided", tuple(opinions), witnesses.name, reason)
    upheld = next((opinion for opinion in open_ if bench.upholds(opinion.layer)), None)
    if upheld is not None:
        return SecondOpinion("golden_upheld", tuple(opinions), witnesses.name, upheld.reason)
    return SecondOpinion("undecided", tuple(opinions), witnesses.name, open_[0].reason)


@dataclass(frozen=True)
class _Bench:
    """The three referees of one case."""

    profile: Profile
    golden: Mapping[str, ReferenceLayer]
    witnesses: Witnesses

    def hear(self, verdict: LayerVerdict) -> LayerOpinion:
        """All referees on one failing layer."""
        name, seen = verdict.id, verdict.observed
        assert seen is not None  # noqa: S101 - the caller leaves out layers of which nothing was seen
        canonical, evaluator = self.witnesses.canonical.get(name), self.witnesses.evaluator.get(name)
        by_canonical = self._by_canonical(canonical, seen)
        by_evaluator = self._by_evaluator(evaluator, seen, by_canonical)
        reason = self._objection(name, by_canonical, by_evaluator)
        return LayerOpinion(
            name,
            verdict.op,
            _distance(verdict),
            _distance(by_canonical),
            _distance(by_evaluator),
            self.profile.bound(verdict.op, self.golden[name].dtype, self.golden[name].scale),
            outvoted=not reason,
            reason=reason,
        )

    def upholds(self, name: str) -> bool:
        """The evaluator is within the golden's bound."""
        seen = self.witnesses.evaluator_seen.get(name)
        return seen is not None and self._judge(self.golden[name], seen).status == "pass"

    def _by_canonical(self, canonical: ReferenceLayer | None, seen: ObservedLayer) -> LayerVerdict | None:
        if canonical is None:
            return None
        measured = self.witnesses.measured.get((seen.id, seen.digest))
        return self._judge(canonical, replace(seen, stats=measured))

    def _by_evaluator(
        self, evaluator: ReferenceLayer | None, seen: ObservedLayer, by_canonical: LayerVerdict | None
    ) -> LayerVerdict | None:
        """With canonical's bits, or the evaluator's, exactly; else by way of canonical: distances add up at most."""
        if evaluator is None:
            return None
        verdict = self._judge(evaluator, replace(seen, stats=None))
        if verdict.status != "not_compared" or by_canonical is None or by_canonical.metrics is None:
            return verdict
        way = self._judge(evaluator, _canonical_seen(evaluator))
        if way.status != "pass" or way.metrics is None or by_canonical.status != "pass":
            return verdict
        total = (way.metrics.max_abs or 0.0) + (by_canonical.metrics.max_abs or 0.0)
        bounds = self.profile.bounds(evaluator.op, evaluator.dtype, evaluator.scale)
        share = sum(_share(entry) for entry in (way, by_canonical))
        within = bounds is not None and total <= bounds.max_abs
        within = within and (bounds is None or bounds.max_differing is None or share <= bounds.max_differing)
        return replace(
            way,
            status="pass" if within else "not_compared",
            metrics=replace(way.metrics, max_abs=total),
            measured=total,
            reason="" if within else f"it may be up to {words.number(total)} from the evaluator",
        )

    def _objection(self, name: str, by_canonical: LayerVerdict | None, by_evaluator: LayerVerdict | None) -> str:
        """What keeps the golden from being outvoted; empty when nothing does."""
        if by_canonical is None or by_canonical.status != "pass":
            known = by_canonical is not None and by_canonical.status == "fail"
            return f"the device {'differs from' if known else 'could not be compared with'} canonical at `{name}`"
        if by_evaluator is None:
            lacking = self.witnesses.lacking.get(name, "it was not asked")
            return f"canonical fails at `{name}` too, and the evaluator has no opinion of it: {lacking}"
        if self.upholds(name):
            return f"canonical fails at `{name}` too, but ONNX's reference evaluator agrees with the golden"
        if by_evaluator.status != "pass":
            return f"at `{name}` neither the device nor the golden agrees with ONNX's reference evaluator"
        seen = self.witnesses.evaluator_seen.get(name)
        if seen is None or self._judge(self.golden[name], seen).status != "fail":
            return f"the evaluator could not be compared with the golden at `{name}`"
        return ""

    def _judge(self, reference: ReferenceLayer, seen: ObservedLayer) -> LayerVerdict:
        return LayerJudge(self.profile, self.golden).judge(reference, 0, seen)


def _canonical_differs(judge: LayerJudge, layer: ReferenceLayer) -> bool:
    return layer.canonical_digest is not None and judge.judge(layer, 0, _canonical_seen(layer)).status == "fail"


def _canonical_seen(layer: ReferenceLayer) -> ObservedLayer:
    """Canonical as if a device had shown it."""
    return ObservedLayer(
        layer.id,
        layer.op,
        layer.dtype,
        layer.shape,
        layer.canonical_digest or "",
        nonfinite=layer.canonical_nonfinite,
        stats=layer.canonical_stats,
    )


def _distance(verdict: LayerVerdict | None) -> float | None:
    return verdict.metrics.max_abs if verdict is not None and verdict.metrics is not None else None


def _share(verdict: LayerVerdict) -> float:
    metrics = verdict.metrics
    return (metrics.differing or 0) / metrics.count if metrics is not None and metrics.count else 0.0


def _named(opinions: Sequence[LayerOpinion]) -> str:
    more = f" and {len(opinions) - 1} more" if len(opinions) > 1 else ""
    return f"{opinions[0].op} `{opinions[0].layer}`{more}"


def _suspect(outvoted: Sequence[LayerOpinion]) -> str:
    first = outvoted[0]
    return (
        f"golden suspect at {_named(outvoted)}: the device is {words.number(first.canonical)} from canonical and "
        f"{words.number(first.evaluator)} from ONNX's reference evaluator, which agree with it, and "
        f"{words.number(first.golden)} from ONNX Runtime's golden (bound {words.number(first.bound)}); "
        "this does not speak against the commit, and proves nothing for it: look into the golden"
    )
