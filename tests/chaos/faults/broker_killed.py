"""The broker is killed and comes back with its data."""

from tests.chaos.killing import kill
from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World


def strike(world: World) -> None:
    (server,) = world.processes("valkey-server")
    kill(server)


def proof(world: World, _: Evidence) -> None:
    log = world.brokers_log()
    assert log.count("Server initialized") == 2, "the broker was not started again"
    assert log.count("DB loaded from append only file") == 1, "it came back without its data"


FAULT = Fault(words="SIGKILL of the broker, back with its data", proof=proof, strike=strike)
