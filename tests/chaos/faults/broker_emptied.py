"""The broker is killed and comes back without its data: every message is gone."""

import shutil

from tests.chaos.killing import kill
from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    (server,) = world.processes("valkey-server")
    shutil.rmtree(world.state / "broker" / "data")
    kill(server)


FAULT = Fault(words="SIGKILL of the broker, back without its data", strike=strike)
