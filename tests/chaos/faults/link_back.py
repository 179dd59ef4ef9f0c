"""The cable is pulled and is back three seconds later."""

import threading

from tests.chaos.scenario import Fault
from tests.chaos.world import World

AWAY_SECONDS = 3.0


def strike(world: World) -> None:
    assert world.relay is not None
    world.relay.cut()

    def mend() -> None:
        assert world.relay is not None
        world.relay.mend()
        world.strike_now()

    timer = threading.Timer(AWAY_SECONDS, mend)
    timer.start()


FAULT = Fault(words="link cut, back in 3 s", strike=strike, links=("ssh",))
