"""What a learned noise floor is: bounds by operator, dtype, backend and reduction length, below those of people.

``consistency.thresholds.fitting`` makes them. An operator, dtype, backend or length that nobody ran keeps the rule of
the base profile, and no learned bound is wider than that rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from consistency.thresholds.profile import Floor, IntegerRule, Profile

#: Operators that hand on what they read, or a part of it: their error is that of whatever feeds them.
CARRIERS = frozenset(
    """
Abs Cast Clip Compress Concat DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND GlobalMaxPool Identity
LeakyRelu Max MaxPool Min Neg Pad ReduceMax ReduceMin Relu Reshape Resize ScatterElements ScatterND Slice SpaceToDepth
Split Squeeze Tile TopK Transpose Unsqueeze Upsample Where
""".split()  # noqa: SIM905 - a list this long reads better as text
)
#: The name under which they are learned and judged together.
CARRIED = "carried"


@dataclass(frozen=True)
class LearnedRule:
    """What was learned of one operator (or of ``carried``), in one dtype of the reference, on one backend.

    Floats: an error passes up to ``rtol * length ** growth`` of the layer's effective scale, at reduction lengths up to
    ``longest``. Integers: ``integer``. ``capped``: the evidence would allow more than the base profile does, which
    stays. ``fitted`` is what it would allow, at the longest reduction, with no regard to the base; at a stated rate
    above ``sharper_above`` it would be sharper than the base (None: at no rate up to one half). ``largest`` is the
    largest error seen (of integers the largest share of differing elements, and ``largest_lsb``), ``beyond`` how many
    layers the base profile itself failed, which taught nothing.
    """

    op: str
    dtype: str
    backend: str
    longest: int
    layers: int
    families: int
    largest: float
    beyond: int
    rtol: float | None = None
    fitted: float | None = None
    sharper_above: float | None = None
    growth: float = 0.0
    integer: IntegerRule | None = None
    largest_lsb: int | None = None
    capped: bool = False

    def floor(self) -> Floor:
        """What the profile judges by."""
        return Floor(self.rtol, self.growth, self.longest, self.integer)


def group_of(op: str) -> str:
    """The name under which ``op`` is learned."""
    return CARRIED if op in CARRIERS else op


def learned_profile(name: str, rules: Iterable[LearnedRule], base: Profile) -> Profile:
    """``base`` with the learned floors below its rules."""
    floors = {(rule.op, rule.dtype, rule.backend): rule.floor() for rule in rules}
    groups = dict.fromkeys(CARRIERS, CARRIED)
    return replace(base, name=name, floors=floors, groups=groups, learned_from=base.base)
