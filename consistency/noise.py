"""How far a device differs from itself, layer by layer, and what two chips may differ by for that alone.

A layer's tensor seldom comes back, its statistics against the golden do. With ``|a - g| <= A`` and ``|b - g| <= B``
two runs are at most ``A + B`` apart, and by the same inequality for the largest value, the mean and the root mean
square at least as far as these differ. A floor is therefore an interval; what lies between its ends is not settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from consistency.matching import match
from consistency.records import Floor, LayerRepeats, LayerRuns, ReferenceLayer, Stats

Noise = Mapping[str, Floor]
"""Layer → how far apart the chip's own runs of it are; empty for a chip that repeats itself."""

QUIET = Floor(0.0, 0.0)


def floor_of(reference: ReferenceLayer, runs: LayerRuns) -> Floor | None:
    """How far apart the runs of a layer are; ``None`` where fewer than two of its results were measured."""
    seen = {digest: match(reference, layer).stats for digest, layer in runs.shown.items() if digest in runs.digests}
    known = [stats for stats in seen.values() if stats is not None]
    if any(stats.nonfinite_mismatch for stats in known):
        return None  # statistics leave out what is no number
    least = max((_least(a, b) for a, b in combinations(known, 2)), default=0.0)
    if runs.width is not None:
        least = max(least, runs.width)
        return Floor(least, least)
    if len(known) < 2:
        return None
    return Floor(least, sum(sorted(stats.max_abs for stats in known)[-2:]))


def _least(a: Stats, b: Stats) -> float:
    """What two tensors are at least apart at some element, by their statistics against a third."""
    if not a.count or a.count != b.count:
        return 0.0
    mean = abs(a.sum_diff - b.sum_diff) / a.count
    rms = abs(math.sqrt(a.sum_sq_diff / a.count) - math.sqrt(b.sum_sq_diff / b.count))
    # Sums round: what they tell may not exceed what the largest values allow.
    return min(max(abs(a.max_abs - b.max_abs), mean, rms), a.max_abs + b.max_abs)


def chip_noise(outputs: Mapping[str, float], inner: LayerRepeats, layers: Iterable[str]) -> Noise:
    """The noise of one chip: ``outputs`` as far as its plain runs are apart, ``layers`` as ``inner`` tells.

    Layers that were the same in every run have none. One that varies nobody knows how far, or of a chip whose layers
    ran once, is left out.
    """
    if not outputs and not inner.floors:
        return {}
    quiet = dict.fromkeys(layers, QUIET) if inner.runs > 1 else {}
    noise = {name: floor for name, floor in (quiet | dict(inner.floors)).items() if floor is not None}
    for name, width in outputs.items():
        own = noise.get(name, QUIET)
        noise[name] = Floor(max(width, own.least), max(width, own.most))
    return noise


def pair_floor(name: str, noise: Sequence[Noise]) -> Floor | None:
    """How far apart chips may be for their own noise alone; ``None`` where one varies by nobody knows how much."""
    noisy = [own for own in noise if own]
    if not noisy:
        return QUIET
    if not all(name in own for own in noisy):
        return None
    return Floor(sum(own[name].least for own in noisy), sum(own[name].most for own in noisy))
