"""The engine itself misbehaves: its fault, and it must be told as such."""

from tests.chaos.scenario import Fault

FAULT = Fault(
    words="runner hangs",
    arm=lambda world: world.order("runner", "hang"),
    moments=("running",),
    ends="crashed",
    seconds=2.0,
)
