"""The parent of all workers of a host is killed outright."""

from pathlib import Path

from tests.chaos.killing import kill
from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    slot = world.slot()
    parents = {pid for pid in world.processes("farm.worker") if parent_of(slot) == pid}
    for pid in parents:
        kill(pid)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


FAULT = Fault(words="SIGKILL of the parent of all workers", strike=strike)
