"""The process that holds the job is killed outright."""

from tests.chaos.killing import kill
from tests.chaos.proofs import HOLDER, holder_lost_it
from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    slot = world.slot()
    kill(slot)
    world.seen[HOLDER] = slot


FAULT = Fault(words="SIGKILL of the worker that has the job", proof=holder_lost_it, strike=strike)
