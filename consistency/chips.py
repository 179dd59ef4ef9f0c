"""Chip against chip, from digests and from what each chip's statistics against the golden already prove.

With ``|a - g| <= A`` and ``|b - g| <= B`` everywhere, ``|a - b| <= A + B`` everywhere, and at the place of A it is
at least ``A - B``. So most pairs are settled without moving a tensor; the rest are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from consistency import words
from consistency.localise import first_deviating, frontier_of, topological
from consistency.matching import Match, match
from consistency.noise import QUIET, Noise, pair_floor
from consistency.pairing import pair
from consistency.records import (
    BitGroup,
    BitIdentity,
    ChipLayer,
    ChipPairVerdict,
    Floor,
    ObservedLayer,
    ReferenceLayer,
    Stats,
    Worst,
)
from consistency.thresholds import Bounds, Profile, judge

Apart = Callable[[str, str, str], Stats | None]
"""Two chips and a layer → the second's tensor measured against the first's; ``None`` where one is not at hand."""


def compare_chips(
    a_layers: Sequence[ObservedLayer],
    b_layers: Sequence[ObservedLayer],
    reference: Sequence[ReferenceLayer],
    profile: Profile,
) -> ChipPairVerdict:
    """Compare two executions of one case; symmetric in ``a`` and ``b`` but for the words.

    Compared are the layers that both report. The bound of a pair is the layer's bound against the golden.
    """
    return compare_fleet({"a": a_layers, "b": b_layers}, reference, profile)["a", "b"]


def compare_fleet(
    chips: Mapping[str, Sequence[ObservedLayer]],
    reference: Sequence[ReferenceLayer],
    profile: Profile,
    noise: Mapping[str, Noise] | None = None,
    apart: Apart | None = None,
) -> dict[tuple[str, str], ChipPairVerdict]:
    """``compare_chips`` of every two of ``chips``, in their order; each chip is paired with the model once.

    ``noise`` has the chips that do not repeat themselves: no pair is judged finer than they are. ``apart`` measures a
    layer of two chips where both tensors are at hand; it is asked for what statistics against the golden leave open.
    """
    order, noisy = topological(reference), noise or {}
    bounds = {layer.id: profile.bounds(layer.op, layer.dtype, layer.scale, layer.reduction) for layer in order}
    sides = {chip: _side(order, layers) for chip, layers in chips.items()}
    return {
        (a, b): _compare(
            order,
            sides[a],
            sides[b],
            bounds,
            profile,
            (noisy.get(a, {}), noisy.get(b, {})),
            partial(apart, a, b) if apart else _nowhere,
        )
        for a, b in combinations(sides, 2)
    }


def of_unlike_precision(verdict: ChipPairVerdict, a: str, b: str) -> ChipPairVerdict:
    """``verdict`` of two chips that ran in precisions ``a`` and ``b``: not the same configuration, so it is none."""
    return replace(
        verdict,
        status="not_compared",
        first_deviating=(),
        needs_tensors=(),
        worst=None,
        reason=f"one ran in {a}, the other in {b}: not the same configuration; "
        f"{verdict.layers_equal} of {verdict.layers_compared} layers are bit-identical",
    )


def _nowhere(name: str) -> None:
    """No tensor of layer ``name`` is at hand."""
    del name


_Side = Mapping[str, tuple[ObservedLayer, Match]]


def _side(order: Sequence[ReferenceLayer], layers: Sequence[ObservedLayer]) -> _Side:
    """One chip's layers by id, each with the reference it equals."""
    pairs = pair(order, layers).pairs
    return {layer.id: (pairs[layer.id], match(layer, pairs[layer.id])) for layer in order if layer.id in pairs}


def _compare(
    order: Sequence[ReferenceLayer],
    a: _Side,
    b: _Side,
    bounds: Mapping[str, Bounds | None],
    profile: Profile,
    noise: tuple[Noise, Noise],
    apart: Callable[[str], Stats | None],
) -> ChipPairVerdict:
    layers = []
    for layer in order:
        if layer.id in a and layer.id in b:
            floor = pair_floor(layer.id, noise)
            found = _chip_layer(layer, a[layer.id], b[layer.id], bounds[layer.id], profile, floor)
            layers.append(_settled(found, bounds[layer.id], floor, apart) if found.status == "needs_tensors" else found)
    equal = [layer for layer in layers if layer.status == "identical"]
    failing = [layer for layer in layers if layer.status == "fail"]
    open_ids = tuple(layer.id for layer in layers if layer.status == "needs_tensors")
    first = frontier_of(order, {layer.id for layer in failing}).introduced
    split = frontier_of(order, {layer.id for layer in layers if layer.status != "identical"}).introduced
    status = _pair_status(layers, failing, open_ids)
    return ChipPairVerdict(
        status=status,
        bit_identical=bool(layers) and len(equal) == len(layers),
        layers_equal=len(equal),
        layers_compared=len(layers),
        first_deviating=first,
        first_split=split[0] if split else None,
        needs_tensors=open_ids,
        worst=_worst(layers, first),
        reason=_reason(layers, status, first, split, len(equal)),
        layers=tuple(layers),
    )


def bit_identity(
    layers: Mapping[str, Mapping[str, str]],
    dispatch: Mapping[str, str],
    reference: Sequence[ReferenceLayer],
) -> BitIdentity:
    """Group devices whose digests agree on every layer that all of them report.

    ``layers`` device → {layer: digest} · ``dispatch`` device → binary and instruction path reached; devices that
    share it are one witness, so a group lists each dispatch once. A device that reports nothing is left out.
    """
    order = [layer.id for layer in topological(reference)]
    devices = sorted(device for device, digests in layers.items() if digests)
    common = [name for name in order if devices and all(name in layers[device] for device in devices)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for device in devices:
        groups.setdefault(tuple(layers[device][name] for name in common), []).append(device)
    if not common:
        groups = {}
    split = [name for name in common if len({layers[device][name] for device in devices}) > 1]
    first = first_deviating(reference, split).introduced
    return BitIdentity(
        groups=tuple(
            BitGroup(tuple(members), tuple(sorted({dispatch.get(m, "unknown") for m in members})), len(common))
            for members in sorted(groups.values(), key=lambda members: (-len(members), members))
        ),
        identical_layers=len(common) - len(split),
        total_layers=len(order),
        first_split_layer=first[0] if first else None,
    )


def _chip_layer(
    reference: ReferenceLayer,
    a: tuple[ObservedLayer, Match],
    b: tuple[ObservedLayer, Match],
    bounds: Bounds | None,
    profile: Profile,
    floor: Floor | None,
) -> ChipLayer:
    (a_seen, a_match), (b_seen, b_match) = a, b
    if a_seen.digest == b_seen.digest and a_seen.dtype == b_seen.dtype and a_seen.shape == b_seen.shape:
        return ChipLayer(reference.id, "identical", 0.0, None)
    bound = bounds.max_abs if bounds else None
    unlike = _unlike(reference, a, b, profile)
    if unlike:
        return ChipLayer(reference.id, "fail", None, bound, unlike)
    if bounds is None:
        return ChipLayer(reference.id, "needs_tensors", None, None, f"no profile rule compares {reference.dtype}")
    a_stats, b_stats = a_match.stats, b_match.stats
    if a_stats is None or b_stats is None:
        return ChipLayer(reference.id, "needs_tensors", None, bounds.max_abs, "statistics of one side are not known")
    if a_stats.nonfinite_mismatch or b_stats.nonfinite_mismatch:
        return ChipLayer(reference.id, "needs_tensors", None, bounds.max_abs, "non-finite values at unknown places")
    return _triangle(reference.id, a_stats, b_stats, bounds, floor)


def _settled(
    found: ChipLayer, bounds: Bounds | None, floor: Floor | None, apart: Callable[[str], Stats | None]
) -> ChipLayer:
    """A layer that statistics leave open, by its tensors where they are at hand."""
    stats = apart(found.id) if bounds is not None else None
    if stats is None or bounds is None:
        return found
    told = f"{words.number(stats.max_abs)} apart by their tensors"
    failed = next((outcome for outcome in judge(stats, bounds) if not outcome.passed), None)
    if failed is None:
        return replace(found, status="pass", difference=stats.max_abs, reason=told)
    if floor is None:
        return found
    if failed.metric == "max_abs" and stats.max_abs <= floor.least:
        reason = f"{told}, within own noise ({words.number(floor.least)})"
        return replace(found, status="pass", difference=stats.max_abs, reason=reason)
    if failed.metric == "max_abs" and stats.max_abs <= floor.most:
        return replace(found, difference=stats.max_abs, reason=f"{told}, {_between(floor)}")
    return replace(found, status="fail", difference=stats.max_abs, reason=told)


def _between(floor: Floor) -> str:
    """What is known of a noise that was measured by statistics."""
    return f"own noise is known to lie between {words.number(floor.least)} and {words.number(floor.most)}"


def _unlike(
    reference: ReferenceLayer,
    a_side: tuple[ObservedLayer, Match],
    b_side: tuple[ObservedLayer, Match],
    profile: Profile,
) -> str | None:
    """Why two layers with different digests fail without a number."""
    (a, a_match), (b, b_match) = a_side, b_side
    if a.shape != b.shape:
        return f"shapes {list(a.shape)} and {list(b.shape)}"
    if a.dtype != b.dtype and not all(profile.accepts_dtype(reference.dtype, side.dtype) for side in (a, b)):
        return f"dtypes {a.dtype} and {b.dtype}"
    if a_match.nonfinite is not b_match.nonfinite and a_match.nonfinite != b_match.nonfinite:
        return f"{words.nonfinite(a_match.nonfinite)} on one side, {words.nonfinite(b_match.nonfinite)} on the other"
    return "the digests differ" if profile.bitexact else None


def _within(least: float, most: float, bound: float, beyond: float | None = None) -> str:
    """What is known of a number between ``least`` and ``most``, whose bound lies between ``bound`` and ``beyond``."""
    if most <= bound:
        return "pass"
    return "fail" if least > max(bound, beyond or 0.0) else "needs_tensors"


def _triangle(name: str, a: Stats, b: Stats, bounds: Bounds, floor: Floor | None) -> ChipLayer:
    """Settle by interval where possible, no finer than the chips differ from themselves.

    Integers also by how many elements can differ, which own noise excuses only where it explains every difference.
    """
    least, most = abs(a.max_abs - b.max_abs), a.max_abs + b.max_abs
    own = floor or QUIET
    bound, beyond = max(bounds.max_abs, own.least), max(bounds.max_abs, own.most)
    verdicts = [_within(least, most, bound, beyond)]
    if bounds.max_differing is not None and a.count and not 0 < most <= own.least:
        fewest, many = abs(a.differing - b.differing), min(a.differing + b.differing, a.count)
        verdicts.append(_within(fewest, many, bounds.max_differing * a.count))
    status = "fail" if "fail" in verdicts else "needs_tensors" if "needs_tensors" in verdicts else "pass"
    # What the numbers prove: a failure by at least, anything else by at most.
    shown = least if status == "fail" else most
    reason = f"{'at least' if status == 'fail' else 'at most'} {words.number(shown)} apart"
    if floor is None and status != "pass":
        status, reason = (
            "needs_tensors",
            f"{reason}; one chip does not repeat itself, and how far it varies here is not known",
        )
    elif status == "pass" and most > bounds.max_abs:
        reason = f"{reason}, within own noise ({words.number(own.least)})"
    elif status == "needs_tensors" and beyond > bound:
        reason = f"{reason}, {_between(own)}"
    return ChipLayer(name, status, shown, bounds.max_abs, reason)


def _pair_status(layers: Sequence[ChipLayer], failing: Sequence[ChipLayer], open_ids: Sequence[str]) -> str:
    if not layers:
        return "not_compared"
    if failing:
        return "fail"
    return "inconclusive_needs_tensors" if open_ids else "pass"


def _worst(layers: Sequence[ChipLayer], first: Sequence[str]) -> Worst | None:
    chosen = next((layer for layer in layers if layer.id == first[0]), None) if first else None
    if chosen is None:
        bounded = [layer for layer in layers if layer.bound and layer.difference is not None]
        chosen = max(bounded, key=lambda layer: (layer.difference or 0.0) / (layer.bound or 1.0), default=None)
    if chosen is None:
        return None
    return Worst(chosen.id, "max_abs", chosen.difference, chosen.bound, chosen.difference)


def _reason(layers: Sequence[ChipLayer], status: str, first: Sequence[str], split: Sequence[str], equal: int) -> str:
    if status == "not_compared":
        return "no layer is reported by both chips"
    if equal == len(layers):
        return f"all {equal} layers are bit-identical"
    by_id = {layer.id: layer for layer in layers}
    start = f"{equal} of {len(layers)} layers are bit-identical, the first that is not is `{split[0]}`"
    if status == "fail":
        return f"`{first[0]}` differs: {by_id[first[0]].reason} (bound {words.number(by_id[first[0]].bound)}); {start}"
    if status == "pass":
        noisy = any(layer.bound is not None and (layer.difference or 0.0) > layer.bound for layer in layers)
        return f"{start}; every difference is within its bound{' or own noise' if noisy else ''}"
    unsettled = [layer for layer in layers if layer.status == "needs_tensors"]
    told = f"`{unsettled[0].id}` ({unsettled[0].reason}, bound {words.number(unsettled[0].bound)})"
    which = f"{len(unsettled)} layers, first {told}" if len(unsettled) > 1 else told
    return (
        f"{start}; statistics against the golden cannot settle {which}: to compare two chips inside a model, tensors "
        "would have to be fetched from both, and only final outputs are"
    )
