"""Layers that were fed a reference's bits in the whole model: what they give there is what they introduce.

A layer whose inputs all have the golden's bits ran on the golden's inputs already; nothing has to travel to run it
alone. With canonical's bits as inputs, canonical's own result is what it should have given: that lies no further from
the golden than ``canonical_stats`` say, so what the device is further off than that it introduced itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consistency.pairing import Pairing
from consistency.records import AloneVerdict, LayerVerdict, ReferenceLayer
from consistency.thresholds import Profile

#: Rules that fail for what canonical, which is sound there, has not.
_OF_KIND = frozenset({"shape", "dtype", "nonfinite", "nonfinite_mismatch", "constant"})


def fed_alike(
    profile: Profile, order: Sequence[ReferenceLayer], verdicts: Sequence[LayerVerdict], pairing: Pairing
) -> dict[str, AloneVerdict]:
    """The failing layers that introduce their error by this evidence, by id. Where it cannot tell, none is given."""
    layers = {layer.id: layer for layer in order}
    found = {}
    for verdict in verdicts:
        if verdict.status != "fail" or verdict.id not in pairing.pairs:
            continue
        whose = _whose(layers, verdict.id, pairing)
        if profile.bitexact:
            whose = whose & {"canonical"}
        if "golden" in whose or ("canonical" in whose and _beyond(profile, verdict, layers[verdict.id])):
            found[verdict.id] = AloneVerdict(
                status="fail",
                metrics=verdict.metrics,
                nonfinite=verdict.nonfinite,
                metric=verdict.metric,
                measured=verdict.measured,
                bound=verdict.bound,
                reason=verdict.reason,
                on="golden" if "golden" in whose else "canonical",
                ran=False,
            )
    return found


def _whose(layers: Mapping[str, ReferenceLayer], name: str, pairing: Pairing) -> set[str]:
    """The references whose bits everything has that ``name`` reads; tensors fused into it are read through.

    Inputs of the model and constants are the same for everybody.
    """
    whose = {"golden", "canonical"}
    waiting, seen = list(layers[name].inputs), {name}
    while waiting and whose:
        source = waiting.pop()
        if source in seen or source not in layers:
            continue
        seen.add(source)
        if pairing.covered.get(source) == name:
            waiting += layers[source].inputs
            continue
        layer, observed = layers[source], pairing.pairs.get(source)
        if observed is None or (observed.dtype, observed.shape) != (layer.dtype, layer.shape):
            return set()
        if observed.digest != layer.digest:
            whose.discard("golden")
        if observed.digest != layer.canonical_digest:
            whose.discard("canonical")
    return whose


def _beyond(profile: Profile, verdict: LayerVerdict, layer: ReferenceLayer) -> bool:
    """Whether the layer is further off than canonical's own distance from the golden explains."""
    own = layer.canonical_stats
    if profile.bitexact:
        return True
    if own is None or own.nonfinite_mismatch or layer.canonical_nonfinite != layer.nonfinite:
        return False
    if verdict.metric in _OF_KIND:
        return True
    if verdict.measured is None or verdict.bound is None:
        return False
    explained = {"max_abs": own.max_abs, "differing": own.differing / own.count if own.count else 0.0}
    return verdict.metric in explained and verdict.measured - explained[verdict.metric] > verdict.bound
