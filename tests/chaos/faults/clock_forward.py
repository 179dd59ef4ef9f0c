"""The host's wall clock jumps by an hour, as when it is set for the first time."""

from tests.chaos.proofs import clock_jumped
from tests.chaos.scenario import Fault

JUMP_SECONDS = 3600.0

FAULT = Fault(
    words="clock jumps forward by an hour",
    proof=lambda _, evidence: clock_jumped(evidence, JUMP_SECONDS),
    strike=lambda world: world.jump(JUMP_SECONDS),
    kind="clock jumps",
)
