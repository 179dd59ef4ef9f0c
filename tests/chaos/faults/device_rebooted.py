"""The device restarts: all that runs there ends, and the link is away for a moment."""

from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    assert world.sshd is not None
    world.sshd.stop()
    world.sshd.start()


FAULT = Fault(words="device reboots", strike=strike, links=("ssh",))
