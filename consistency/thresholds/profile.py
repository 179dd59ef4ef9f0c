"""What a profile is: rules for floating-point and for integer layers, and the bounds they give one layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from consistency.records import ReferenceLayer, Scale

FLOAT_TYPES = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGER_TYPES = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"})

#: A normal distribution has its 99.9th percentile at 3.3 RMS; beyond 4 RMS the tail is heavy and is cut off.
TAIL = 4.0


@dataclass(frozen=True)
class FloatRule:
    """Bounds of a floating-point layer.

    An error passes up to ``max(atol, rtol * scale, rounding * max_abs)``; ``rounding`` is a few units of
    roundoff, which no engine can undercut on the largest element. Where that exceeds the scale of the rest
    (a mask of -1e9) it is dropped: such values swallow what is added to them, alike on every engine. Cosine
    and norm ratio are judged only where the error exceeds ``atol``: below it, direction and length are
    those of noise.
    """

    atol: float
    rtol: float
    rounding: float
    min_cosine: float
    max_norm_drift: float


@dataclass(frozen=True)
class IntegerRule:
    """Bounds of an integer layer: the largest difference in LSB and the largest fraction of differing elements."""

    max_lsb: int
    max_differing: float


@dataclass(frozen=True)
class Bounds:
    """The bounds of one layer. ``None`` means the rule is not judged there; ``atol`` as in ``FloatRule``."""

    max_abs: float
    max_differing: float | None = None
    min_cosine: float | None = None
    max_norm_drift: float | None = None
    atol: float = 0.0


@dataclass(frozen=True)
class Floor:
    """A learned bound (``consistency.thresholds.learned``); ``None`` where the rule of the profile serves.

    ``rtol`` holds at reduction length 1 and grows as ``length ** growth``, for lengths up to ``longest``.
    """

    rtol: float | None = None
    growth: float = 0.0
    longest: int = 0
    integer: IntegerRule | None = None

    def share(self, length: int) -> float:
        """Of the layer's scale; infinite beyond the longest reduction seen, the longest's where it is not known (0)."""
        if self.rtol is None or length > self.longest:
            return math.inf
        return float(self.rtol * max(1, length or self.longest) ** self.growth)


@dataclass(frozen=True)
class Profile:
    """Rules by dtype and operator.

    ``integers`` maps a dtype to its rule, ``other_integers`` serves the rest; ``by_op`` replaces the
    float rule of one operator; ``float_types`` are the types in which a float layer may arrive;
    ``bitexact`` judges the digest against canonical and nothing else. ``floors`` maps (operator or its name in
    ``groups``, dtype, backend) to a learned bound that may sharpen the rules and never widens them; ``learned_from``
    names the profile below such floors.
    """

    name: str
    floats: FloatRule
    integers: Mapping[str, IntegerRule] = field(default_factory=dict)
    other_integers: IntegerRule = IntegerRule(max_lsb=0, max_differing=0.0)
    by_op: Mapping[str, FloatRule] = field(default_factory=dict)
    float_types: frozenset[str] = frozenset({"float32", "float64"})
    bitexact: bool = False
    floors: Mapping[tuple[str, str, str], Floor] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    learned_from: str = ""

    @property
    def base(self) -> str:
        """The profile of the code that this is, or was learned over."""
        return self.learned_from or self.name

    def bounds(self, op: str, dtype: str, scale: Scale, length: int = 0, backend: str = "") -> Bounds | None:
        """The bounds of one layer; ``None`` for a dtype that no rule can judge.

        ``length`` is the reduction length (0: unknown), ``backend`` where it ran (empty: unknown); only learned
        bounds depend on them.
        """
        floors = self._floors(op, dtype, backend)
        if dtype in FLOAT_TYPES:
            rule = self.by_op.get(op, self.floats)
            size = effective_scale(scale)
            rounding = rule.rounding * scale.max_abs
            rtol = min(rule.rtol, max((floor.share(length) for floor in floors), default=math.inf))
            limit = max(rule.atol, rtol * size, rounding if rounding <= size else 0.0)
            return Bounds(limit, None, rule.min_cosine, rule.max_norm_drift, rule.atol)
        if dtype in INTEGER_TYPES:
            integer = self.integers.get(dtype, self.other_integers)
            for floor in floors[:1]:
                integer = _sharper(integer, floor.integer)
            return Bounds(float(integer.max_lsb), integer.max_differing)
        return None

    def bound(self, op: str, dtype: str, scale: Scale, length: int = 0) -> float:
        """The absolute bound of one layer (0 for a dtype that no rule can judge)."""
        bounds = self.bounds(op, dtype, scale, length)
        return bounds.max_abs if bounds else 0.0

    def _floors(self, op: str, dtype: str, backend: str) -> tuple[Floor, ...]:
        """The learned bounds that apply: one, or those of every backend where it is not known, widest first."""
        if not self.floors:
            return ()
        group = self.groups.get(op, op)
        if backend:
            found = self.floors.get((group, dtype, backend))
            return (found,) if found else ()
        known = [floor for (name, kind, _), floor in self.floors.items() if (name, kind) == (group, dtype)]
        return tuple(sorted(known, key=lambda floor: -floor.integer.max_differing if floor.integer else 0.0))

    def accepts_dtype(self, expected: str, got: str) -> bool:
        """Whether a layer of ``expected`` may arrive as ``got``."""
        return got == expected or (expected in FLOAT_TYPES and got in self.float_types)


def effective_scale(scale: Scale) -> float:
    """The size against which errors are read: the 99.9th percentile, but no more than 4 RMS.

    The percentile keeps outliers from hiding errors in the rest, the RMS does so where they are more than
    0.1 % of the elements; masks are left out of both (``consistency.metrics.scale``). A layer with fewer
    than 0.1 % non-zero elements has no percentile and uses its RMS.
    """
    return min(scale.p999, TAIL * scale.rms) if scale.p999 > 0.0 else scale.rms


def absolute_bound(profile: Profile, layer: ReferenceLayer) -> float:
    """The bound to send to a device with the golden's tensor of ``layer``: above it, elements are counted."""
    return profile.bound(layer.op, layer.dtype, layer.scale, layer.reduction)


def _sharper(rule: IntegerRule, learned: IntegerRule | None) -> IntegerRule:
    if learned is None:
        return rule
    return IntegerRule(min(rule.max_lsb, learned.max_lsb), min(rule.max_differing, learned.max_differing))
