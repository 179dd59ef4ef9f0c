"""How sure a counted share is."""

from __future__ import annotations

import math

#: Two-sided 95 % of a normal distribution.
Z95 = 1.959963984540054


def wilson(hits: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """The score interval of a binomial share ``hits / trials`` (E. B. Wilson, JASA 22, 1927); (0, 1) without trials.

    Unlike the textbook interval it stays within 0 … 1 and has a width where every trial gave the same.
    ``ValueError`` unless 0 ≤ hits ≤ trials.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"{hits} of {trials} is no share")
    if trials == 0:
        return 0.0, 1.0
    share, square = hits / trials, z * z
    middle = share + square / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    low = 0.0 if hits == 0 else (middle - spread) / scale
    high = 1.0 if hits == trials else (middle + spread) / scale
    return low, high
