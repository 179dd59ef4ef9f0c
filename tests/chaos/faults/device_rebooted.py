"""The device restarts: all that runs there ends, and the link is away for a moment."""

from tests.chaos.scenario import FAR_LINKS, Fault
from tests.chaos.world import Evidence, World


def proof(world: World, _: Evidence) -> None:
    assert world.device().rebooted, "the device runs as it did before"


FAULT = Fault(words="device reboots", proof=proof, strike=lambda world: world.device().reboot(), links=FAR_LINKS)
