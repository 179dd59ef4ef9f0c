"""How sure a counted share is."""

from __future__ import annotations

import math
from collections.abc import Callable

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


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a binomial share (C. J. Clopper, E. S. Pearson, Biometrika 26, 1934).

    It covers the true share with at least ``confidence``; (0, 1) without trials. ``ValueError`` unless
    0 ≤ hits ≤ trials and 0 < confidence < 1.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"{hits} of {trials} is no share")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    tail = (1.0 - confidence) / 2
    low = 0.0 if hits == 0 else bisect(lambda share: 1.0 - binomial_at_most(hits - 1, trials, share) - tail, 0.0, 1.0)
    high = 1.0 if hits == trials else bisect(lambda share: tail - binomial_at_most(hits, trials, share), 0.0, 1.0)
    return low, high


def binomial_at_most(hits: int, trials: int, share: float) -> float:
    """The probability of at most ``hits`` of ``trials``."""
    if share <= 0.0 or hits >= trials:
        return 1.0
    if share >= 1.0:
        return 0.0
    logs = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(share) + (trials - k) * math.log1p(-share)
        for k in range(hits + 1)
    ]  # fmt: skip
    most = max(logs)
    return min(1.0, math.exp(most) * math.fsum(math.exp(value - most) for value in logs))


def student(probability: float, freedom: int) -> float:
    """The quantile of Student's t with ``freedom`` degrees, for a probability in 0.5 … 1.

    By bisection on the finite series for whole degrees (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    if not 0.5 <= probability < 1.0 or freedom < 1:
        raise ValueError(f"no quantile of t at {probability} with {freedom} degrees of freedom")
    high = 1.0
    while _within(high, freedom) < 2 * probability - 1 and high < 1e15:
        high *= 2
    return bisect(lambda value: _within(value, freedom) - (2 * probability - 1), 0.0, high)


def student_beyond(value: float, freedom: int) -> float:
    """The probability that Student's t with ``freedom`` degrees exceeds ``value`` ≥ 0: the inverse of ``student``."""
    if value < 0.0 or freedom < 1:
        raise ValueError(f"no tail of t beyond {value} with {freedom} degrees of freedom")
    return (1.0 - _within(value, freedom)) / 2


def bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is zero between ``low`` and ``high``, to the last bit that 200 halvings reach."""
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if rising(middle) > 0.0 else (middle, high)
    return high


def _within(value: float, freedom: int) -> float:
    """The probability that ``|t|`` is below ``value``."""
    angle = math.atan(value / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    term, total = (math.cos(angle), 0.0) if freedom % 2 else (1.0, 0.0)
    for step in range(1 + freedom % 2, freedom, 2):
        total += term
        term *= square * step / (step + 1)
    if freedom % 2:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
