"""Quantised engines: 8-bit layers may differ by 1 LSB in at most 1 % of their elements.

Different but correct roundings of one convolution: 80 of 51,200 elements off by 1 (0.16 %). A saturating
u8·s8 kernel: 79.5 % off by up to 25 LSB. Wider integers (indices, accumulators) are exact. Layers that
arrive dequantised are judged by scale: the integer reference against a correct backend reads 2.2e-2 of
the largest value, a saturating one 0.106.
"""

from __future__ import annotations

from consistency.thresholds.profile import FloatRule, IntegerRule, Profile

_ONE_LSB = IntegerRule(max_lsb=1, max_differing=0.01)

PROFILE = Profile(
    name="int8",
    floats=FloatRule(atol=1e-4, rtol=5e-2, rounding=4 * 2.0**-11, min_cosine=0.995, max_norm_drift=2e-2),
    integers={"int8": _ONE_LSB, "uint8": _ONE_LSB},
)
