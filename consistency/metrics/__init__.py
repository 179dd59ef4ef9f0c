"""Measures of one tensor against another; one file a family, all computed from one pass of sums."""

from consistency.metrics.accumulate import StatsAccumulator, stats_from_arrays
from consistency.metrics.nonfinite import count_nonfinite
from consistency.metrics.scale import scale_of
from consistency.metrics.summary import metrics_from_stats
from consistency.metrics.ulp import ulp_distance

__all__ = [
    "StatsAccumulator",
    "count_nonfinite",
    "metrics_from_stats",
    "scale_of",
    "stats_from_arrays",
    "ulp_distance",
]
