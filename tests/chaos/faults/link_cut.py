"""The cable is pulled and stays so."""

from tests.chaos.proofs import pull, was_pulled
from tests.chaos.scenario import FAR_LINKS, Fault
from tests.chaos.world import Evidence, World


def proof(world: World, evidence: Evidence) -> None:
    was_pulled(world, evidence)
    assert not world.device().passes(), "the link is back"


FAULT = Fault(
    words="link cut for good",
    proof=proof,
    strike=pull,
    links=FAR_LINKS,
    ends="infra",
    but=(("storing", "pass"),),
)
