"""The broker is killed and comes back with its data."""

from tests.chaos.killing import kill
from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    (server,) = world.processes("valkey-server")
    kill(server)


FAULT = Fault(words="SIGKILL of the broker, back with its data", strike=strike)
