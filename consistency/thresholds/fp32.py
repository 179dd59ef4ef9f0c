"""FP32 engines of any make.

Measured: genuine FP32 differences between chips and runtimes are 5.8e-7 (one runtime over CPUs) to 3e-6
(any two runtimes) of the layer's largest value. The largest value of the layers of the smoke suite is up to
7.5 times ``effective_scale``, and the worst layer of the orientation CNN between two optimisation levels
of ONNX Runtime reads 7.7e-6 of that scale. ``rtol`` 5e-5 leaves a factor of 6 for accumulation along depth,
and still fails an exact GELU in place of the tanh form (4.7e-4 in a layer of scale 5), which 1e-4 would pass.
``rounding`` is four units of roundoff of FP32. ``atol`` covers subnormals and cancelled zeros.

A Softmax over thousands of classes is near 1 in few places and near 0 elsewhere, so its scale says nothing of the
few: measured there, healthy optimisation levels of ONNX Runtime are up to 3e-6 apart, more than ``atol``. Its values
add up to 1, hence an ``atol`` of 1e-5 for it; one replaced by zeros over a thousand classes is off by 1e-3.
"""

from __future__ import annotations

from dataclasses import replace

from consistency.thresholds.profile import FloatRule, Profile

_FLOATS = FloatRule(atol=1e-6, rtol=5e-5, rounding=4 * 2.0**-24, min_cosine=1 - 1e-6, max_norm_drift=1e-4)

PROFILE = Profile(name="fp32", floats=_FLOATS, by_op={"Softmax": replace(_FLOATS, atol=1e-5)})
