"""The engine itself misbehaves: its fault, and it must be told as such."""

from tests.chaos.scenario import Fault

FAULT = Fault(
    words="runner answers garbage",
    arm=lambda world: world.order("runner", "garbage"),
    moments=("running",),
    ends="crashed",
)
