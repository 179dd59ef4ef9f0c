"""Healthy engines of every precision beside the golden, for ``lockstep thresholds learn``."""
