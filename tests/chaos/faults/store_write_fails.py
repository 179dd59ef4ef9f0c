"""One write to the store fails in a worker."""

from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World


def proof(world: World, _: Evidence) -> None:
    assert world.was_taken("write-fails"), "no write failed"
    assert "disk I/O error" in world.workers_log(), "no worker met it"


FAULT = Fault(
    words="a worker's write to the store fails once",
    proof=proof,
    strike=lambda world: world.order("write-fails"),
)
