"""The broker is killed and comes back without its data: every message is gone."""

import shutil

from tests.chaos.killing import kill
from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World


def strike(world: World) -> None:
    (server,) = world.processes("valkey-server")
    shutil.rmtree(world.state / "broker" / "data")
    kill(server)


def proof(world: World, _: Evidence) -> None:
    log = world.brokers_log()
    assert log.count("Server initialized") == 2, "the broker was not started again"
    assert "DB loaded from append only file" not in log, "it came back with its data"


FAULT = Fault(words="SIGKILL of the broker, back without its data", proof=proof, strike=strike)
