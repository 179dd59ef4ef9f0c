"""The engine itself misbehaves: its fault, and it must be told as such."""

from tests.chaos.proofs import engine_misbehaved
from tests.chaos.scenario import Fault

FAULT = Fault(
    words="runner crashes",
    proof=engine_misbehaved("RunnerCrashed", "SIGSEGV"),
    arm=lambda world: world.order("runner", "crash"),
    moments=("running",),
    ends="crashed",
)
