"""The engine itself misbehaves: its fault, and it must be told as such."""

from tests.chaos.proofs import engine_misbehaved
from tests.chaos.scenario import Fault

FAULT = Fault(
    words="runner result is truncated",
    proof=engine_misbehaved("RunnerNonsense", "Unterminated"),
    arm=lambda world: world.order("runner", "truncated"),
    moments=("running",),
    ends="crashed",
)
