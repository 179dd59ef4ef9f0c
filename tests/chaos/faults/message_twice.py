"""The broker delivers the victim's message a second time."""

import re

from farm.tasks import Publisher
from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World
from tests.waiting import wait_until


def strike(world: World) -> None:
    before = deliveries(world)
    publisher = Publisher(*world.broker())
    try:
        publisher.send(world.victim().id)
    finally:
        publisher.close()
    wait_until(lambda: deliveries(world) > before, "the second message reached no worker")


def deliveries(world: World) -> int:
    """How often a worker said of the victim that it has it, or that it is not there to be run."""
    log, job = world.workers_log(), world.victim().id
    return len(re.findall(rf"job={job} (?:attempt=\d+ .* started|not there to be run)", log))


def proof(world: World, _: Evidence) -> None:
    assert deliveries(world) > 1, "one delivery"


FAULT = Fault(
    words="the message is delivered twice",
    proof=proof,
    strike=strike,
    after=lambda world: wait_until(lambda: deliveries(world) > 1),
)
