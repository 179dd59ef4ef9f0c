"""The command that drives the run is killed outright; people start it again for what is missing."""

from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    assert world.command is not None
    world.command.kill()
    world.command.wait()


FAULT = Fault(words="SIGKILL of the controller; the command is given again", strike=strike, controller=True)
