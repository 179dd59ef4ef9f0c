"""The executors of the tests in a worker that soon takes a silent controller for dead."""

from farm_executors import record

from farm import orphans

orphans.SILENCE_SECONDS = 3.0

__all__ = ["record"]
