"""Engines that store or compute in bfloat16, whose eight bits of precision are eight times as coarse as FP16's eleven.

Measured on one CNN: bfloat16 storage is 3e-2 of the layer's largest value. ``rtol`` and the other bounds are those of
``fp16`` times eight, but for the norm ratio: eight in a hundred would pass a scaled layer, so it is 4e-2.
"""

from __future__ import annotations

from consistency.thresholds.profile import FloatRule, Profile

PROFILE = Profile(
    name="bf16",
    floats=FloatRule(atol=8e-4, rtol=0.24, rounding=4 * 2.0**-8, min_cosine=0.99, max_norm_drift=4e-2),
    float_types=frozenset({"bfloat16", "float16", "float32", "float64"}),
)
