"""The holder of the device is stopped until its lease is over and the job went on elsewhere; then it continues."""

import os
import signal

from tests.chaos.killing import state_of
from tests.chaos.proofs import HOLDER, holder_lost_it
from tests.chaos.scenario import Fault
from tests.chaos.world import World
from tests.waiting import wait_until


def strike(world: World) -> None:
    slot = world.slot()
    os.kill(slot, signal.SIGSTOP)
    wait_until(lambda: state_of(slot) == "T", "the holder goes on")
    world.seen[HOLDER] = slot
    wait_until(lambda: world.victim().status.ended)
    os.kill(slot, signal.SIGCONT)


def settled(world: World) -> None:
    """The holder that went on late has had its say."""
    if len(world.tries()) > 1:
        wait_until(lambda: world.left(1))


FAULT = Fault(
    words="lease ends while its holder is stopped, which then continues",
    proof=holder_lost_it,
    strike=strike,
    after=settled,
)
