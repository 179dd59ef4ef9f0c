"""How a fault proves that it struck: from what the kernel, the store, the logs and the devices keep of it.

A proof is given the world and its evidence once the run is over, and fails unless the fault struck; it holds of no
undisturbed run. What leaves no trace of its own, the strike looks at and keeps in ``World.seen``.
"""

from __future__ import annotations

from collections.abc import Callable

from farm.jobs import AttemptView
from tests.chaos.world import Evidence, World

#: The process that had the victim, seen to be stopped or gone.
HOLDER = "holder"
PULLED = "pulled"
#: More than lies between two looks at a clock, much less than it is made to jump.
APART_SECONDS = 600.0


def victims_attempts(evidence: Evidence) -> tuple[AttemptView, ...]:
    """The attempts at the victim."""
    (victim,) = (job for job in evidence.jobs if job.case == "victim")
    return evidence.attempts[victim.id]


def holder_lost_it(world: World, evidence: Evidence) -> None:
    """The process that had the victim lost what it had begun, if anything, and another one did the job."""
    holder = world.seen.get(HOLDER)
    assert holder is not None, "nothing happened to the holder"
    tries = victims_attempts(evidence)
    mine = [entry for entry in tries if entry.worker.partition("@")[0] == str(holder)]
    assert all(entry.outcome == "lost" for entry in mine), f"its holder went on: {mine}"
    assert len(tries) > len(mine), f"nobody else did the job: {tries}"


def clock_jumped(evidence: Evidence, seconds: float) -> None:
    """The end of the victim as the farm tells it is off by ``seconds`` from when the store saw it."""
    (victim,) = (job for job in evidence.jobs if job.case == "victim")
    (seen,) = (change.at for change in evidence.changes if change.job == victim.id and change.after == victim.status)
    assert victim.finished is not None
    assert abs(victim.finished - seen - seconds) < APART_SECONDS, f"the clock is off by {victim.finished - seen:.1f} s"


def pull(world: World) -> None:
    """Pull the cable, and see that nothing comes through it."""
    world.device().cut()
    assert not world.device().passes(), "the cable is pulled, and the device answers"
    world.seen[PULLED] = True


def was_pulled(world: World, _: Evidence) -> None:
    """The cable was seen to be out."""
    assert PULLED in world.seen, "the cable is in its place"


def engine_misbehaved(kind: str, words: str) -> Callable[[World, Evidence], None]:
    """The victim's runner took the order, and its one attempt ended with this error."""

    def proof(world: World, evidence: Evidence) -> None:
        assert world.was_taken("runner"), "the runner did as always"
        (only,) = victims_attempts(evidence)
        assert only.error is not None
        assert only.error.type == kind, only.error
        assert words in only.error.message, only.error

    return proof
