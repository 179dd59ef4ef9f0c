"""Profiles: the bounds within which a layer agrees with the golden; one file each, found by name."""

from consistency.thresholds.profile import Bounds, FloatRule, IntegerRule, Profile, absolute_bound
from consistency.thresholds.registry import PROFILE_NAMES, profile
from consistency.thresholds.rules import judge, passing_bounds

__all__ = [
    "PROFILE_NAMES",
    "Bounds",
    "FloatRule",
    "IntegerRule",
    "Profile",
    "absolute_bound",
    "judge",
    "passing_bounds",
    "profile",
]
