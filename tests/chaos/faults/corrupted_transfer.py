"""One bit is wrong in a file that travels: to the device while deploying, from it while collecting."""

from tests.chaos.scenario import Fault

FAULT = Fault(
    words="corrupted transfer",
    strike=lambda world: world.order("corrupt"),
    moments=("deploying", "collecting"),
)
