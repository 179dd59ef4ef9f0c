"""Engines that compute or store in FP16.

Measured, of the layer's largest value: FP16 storage 3.9e-4, LiteRT's forced FP16 6e-4 to 1.7e-3, FP16
arithmetic on a GPU 9.3e-3 (bfloat16 storage, 3e-2, is beyond this profile). ``rtol`` 3e-2 of the scale takes
the last of these where the largest value is three times the scale. So wide a bound would hide scaled
weights, hence the narrow norm ratio; so is ``atol``, little above FP16's smallest normal number, because a
softmax over a thousand classes replaced by zeros is off by only 1e-3.
"""

from __future__ import annotations

from consistency.thresholds.profile import FloatRule, Profile

PROFILE = Profile(
    name="fp16",
    floats=FloatRule(atol=1e-4, rtol=3e-2, rounding=4 * 2.0**-11, min_cosine=0.9995, max_norm_drift=1e-2),
    float_types=frozenset({"float16", "float32", "float64"}),
)
