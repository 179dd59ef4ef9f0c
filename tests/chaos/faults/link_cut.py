"""The cable is pulled and stays so."""

from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    assert world.relay is not None
    world.relay.cut()


FAULT = Fault(words="link cut for good", strike=strike, links=("ssh",), ends="infra", but=(("storing", "pass"),))
