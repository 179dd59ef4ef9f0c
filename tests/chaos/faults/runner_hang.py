"""The engine itself misbehaves: its fault, and it must be told as such."""

from tests.chaos.proofs import engine_misbehaved
from tests.chaos.scenario import Fault

FAULT = Fault(
    words="runner hangs",
    proof=engine_misbehaved("RunnerHung", "no result within 2 s"),
    arm=lambda world: world.order("runner", "hang"),
    moments=("running",),
    ends="crashed",
    seconds=2.0,
)
