"""The cable is pulled and is back three seconds later."""

import threading

from tests.chaos.scenario import Fault
from tests.chaos.world import World

AWAY_SECONDS = 3.0


def strike(world: World) -> None:
    assert world.relay is not None
    world.relay.cut()
    threading.Timer(AWAY_SECONDS, world.relay.mend).start()


FAULT = Fault(words="link cut, back in 3 s", strike=strike, links=("ssh",))
