"""The same bits as canonical on every chip: the digest decides, no number is tolerated.

The float rule serves only to count: every element that differs from the golden at all is over its bound.
"""

from __future__ import annotations

from consistency.thresholds.profile import FloatRule, Profile

PROFILE = Profile(
    name="bitexact",
    floats=FloatRule(atol=0.0, rtol=0.0, rounding=0.0, min_cosine=1.0, max_norm_drift=0.0),
    float_types=frozenset(),
    bitexact=True,
)
