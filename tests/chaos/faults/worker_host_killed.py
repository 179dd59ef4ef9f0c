"""The parent of all workers of a host is killed outright."""

from tests.chaos.killing import kill, parent_of, wait_for_end
from tests.chaos.proofs import HOLDER, holder_lost_it
from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    slot = world.slot()
    (parent,) = (pid for pid in world.processes("farm.worker") if parent_of(slot) == pid)
    kill(parent)
    wait_for_end(slot)  # all workers end with it
    world.seen[HOLDER] = slot


FAULT = Fault(words="SIGKILL of the parent of all workers", proof=holder_lost_it, strike=strike)
