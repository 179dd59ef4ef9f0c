"""The host's wall clock jumps by an hour, as when it is set for the first time."""

from tests.chaos.scenario import Fault

FAULT = Fault(words="clock jumps back by an hour", strike=lambda world: world.jump(-3600.0), kind="clock jumps")
