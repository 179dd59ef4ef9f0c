"""The engine itself misbehaves: its fault, and it must be told as such."""

from tests.chaos.proofs import engine_misbehaved
from tests.chaos.scenario import Fault

FAULT = Fault(
    words="runner answers garbage",
    proof=engine_misbehaved("RunnerNonsense", "not JSON"),
    arm=lambda world: world.order("runner", "garbage"),
    moments=("running",),
    ends="crashed",
)
