"""One bit is wrong in a file that travels: to the device while deploying, from it while collecting."""

from engine.contract.errors import TransferError
from farm.health import names_of
from tests.chaos.proofs import victims_attempts
from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World


def proof(world: World, evidence: Evidence) -> None:
    assert world.was_taken("corrupt"), "nothing was damaged"
    first, *more = victims_attempts(evidence)
    assert first.error is not None, "nobody noticed"
    assert first.error.type in names_of(TransferError), first
    assert ("result.json" in first.error.message) == (world.moment == "collecting"), first
    assert more, "it was not sent again"


FAULT = Fault(
    words="corrupted transfer",
    proof=proof,
    strike=lambda world: world.order("corrupt"),
    moments=("deploying", "collecting"),
)
