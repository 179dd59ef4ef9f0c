"""The layers of a device against themselves: which vary from run to run, where that starts, and how far it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consistency.judge_layer import LayerJudge
from consistency.localise import first_deviating
from consistency.noise import floor_of
from consistency.records import Floor, LayerRepeats, LayerRuns, ReferenceLayer
from consistency.thresholds import Profile
from consistency.words import number


def assess_layer_repeats(
    profile: Profile, reference: Sequence[ReferenceLayer], varying: Mapping[str, LayerRuns], runs: int
) -> LayerRepeats:
    """Judge every result of the layers that vary; ``runs`` is how often the layers ran.

    A result that nobody measured is told and decides nothing: the layer was compared in another run.
    """
    layers = {layer.id: layer for layer in reference}
    moving = {name: told for name, told in varying.items() if name in layers and len(set(told.digests)) > 1}
    if not moving:
        return LayerRepeats("same" if runs > 1 else "unknown", runs)
    judge = LayerJudge(profile, layers)
    states = {name: _states(judge, layers[name], told) for name, told in moving.items()}
    mixed = frozenset(name for name, found in states.items() if {"pass", "fail"} <= set(found.values()))
    floors = {name: floor_of(layers[name], told) for name, told in moving.items()}
    first = first_deviating(reference, moving).introduced
    named = next((name for name in first if name in mixed), first[0])
    text = _text(layers[named], moving[named], states[named], floors[named])
    if behind := len(moving) - 1:
        text += f"; {behind} more {'layers vary' if behind > 1 else 'layer varies'}"
    if mixed and named not in mixed:
        text += f", {len(mixed)} of them beyond bounds in some runs, first `{_first_of(reference, mixed)}`"
    return LayerRepeats("beyond" if mixed else "varies", runs, first, floors, mixed, text)


def _states(judge: LayerJudge, reference: ReferenceLayer, told: LayerRuns) -> dict[str, str]:
    """Digest → status of every result; ``not_compared`` where it was not measured."""
    found = {digest: judge.judge(reference, 0, layer).status for digest, layer in told.shown.items()}
    return {digest: found.get(digest, "not_compared") for digest in told.digests}


def _text(reference: ReferenceLayer, told: LayerRuns, states: Mapping[str, str], floor: Floor | None) -> str:
    """Where the layers of a device start to vary, and what is known of it."""
    text = (
        f"the layers start to vary at {reference.op} `{reference.id}`: "
        f"{len(set(told.digests))} different results in {len(told.digests)} runs"
    )
    if told.on_one:
        distinct = len(set(told.on_one))
        text += " (with 1 thread it repeats itself)" if distinct == 1 else " (it varies with 1 thread too)"
    if floor is None:
        text += ", how far apart is not known"
    elif floor.least == floor.most:
        text += f", {number(floor.most)} apart at most: its own noise"
    else:
        text += f", between {number(floor.least)} and {number(floor.most)} apart: its own noise"
    failing = sum(1 for state in states.values() if state == "fail")
    bare = sum(1 for state in states.values() if state not in ("pass", "fail"))
    if bare == len(states):
        return f"{text}; none was measured"
    measured = "each that was measured" if bare else "each"
    if failing == len(states) - bare:
        return f"{text}; {measured} beyond bounds" if failing else text
    return f"{text}; {failing} of them beyond bounds" if failing else f"{text}; {measured} within bounds"


def _first_of(reference: Sequence[ReferenceLayer], names: frozenset[str]) -> str:
    return first_deviating(reference, names).introduced[0]
