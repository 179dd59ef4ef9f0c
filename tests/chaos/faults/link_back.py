"""The cable is pulled and is back three seconds later."""

import threading

from tests.chaos.proofs import pull, was_pulled
from tests.chaos.scenario import FAR_LINKS, Fault
from tests.chaos.world import World

AWAY_SECONDS = 3.0


def strike(world: World) -> None:
    pull(world)
    threading.Timer(AWAY_SECONDS, world.device().mend).start()


FAULT = Fault(words="link cut, back in 3 s", proof=was_pulled, strike=strike, links=FAR_LINKS)
