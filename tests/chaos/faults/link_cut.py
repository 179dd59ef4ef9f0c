"""The cable is pulled and stays so."""

from tests.chaos.scenario import FAR_LINKS, Fault

FAULT = Fault(
    words="link cut for good",
    strike=lambda world: world.device().cut(),
    links=FAR_LINKS,
    ends="infra",
    but=(("storing", "pass"),),
)
