"""The broker delivers the victim's message a second time."""

from farm.tasks import Publisher
from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    publisher = Publisher(*world.broker())
    try:
        publisher.send(world.victim().id)
    finally:
        publisher.close()


FAULT = Fault(words="the message is delivered twice", strike=strike)
