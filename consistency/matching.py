"""Which reference a tensor equals, and the statistics it therefore has."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from consistency.records import Matched, NonFinite, ObservedLayer, ReferenceLayer, Stats


@dataclass(frozen=True)
class Match:
    """``stats`` against the golden (``None``: unknown until the golden's tensor is compared on the device)."""

    matched: Matched
    stats: Stats | None
    nonfinite: NonFinite


def match(reference: ReferenceLayer, observed: ObservedLayer) -> Match:
    """Digests first: equal bits inherit the statistics of the trace they equal, exactly.

    Meant for equal dtypes and shapes; another dtype never matches, whatever its digest says.
    """
    if observed.dtype == reference.dtype:
        if observed.digest == reference.digest:
            matched: Matched = "canonical" if observed.digest == reference.canonical_digest else "golden"
            return Match(matched, identical_stats(reference), reference.nonfinite)
        if observed.digest == reference.canonical_digest:
            stats = reference.canonical_stats or observed.stats
            return Match("canonical", stats, reference.canonical_nonfinite)
    return Match("none", observed.stats, observed.nonfinite)


def identical_stats(reference: ReferenceLayer) -> Stats:
    """The statistics of a tensor with the golden's bits; norms follow from its RMS and finite elements."""
    count = prod(reference.shape)
    energy = reference.scale.rms**2 * max(0, count - reference.nonfinite.total)
    return Stats(
        count=count,
        differing=0,
        over_bound=0,
        max_abs=0.0,
        worst_index=-1,
        worst_got=0.0,
        worst_ref=0.0,
        sum_diff=0.0,
        sum_sq_diff=0.0,
        sum_sq_ref=energy,
        sum_sq_got=energy,
        dot=energy,
        nonfinite_mismatch=0,
    )
