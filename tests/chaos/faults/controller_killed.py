"""The command that drives the run is killed outright; people start it again for what is missing."""

import signal

from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World


def strike(world: World) -> None:
    assert world.command is not None
    world.command.kill()
    world.command.wait()


def proof(world: World, _: Evidence) -> None:
    assert world.command is not None
    assert world.command.returncode == -signal.SIGKILL, "the command came to its own end"


FAULT = Fault(
    words="SIGKILL of the controller; the command is given again", proof=proof, strike=strike, controller=True
)
