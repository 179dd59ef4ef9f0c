"""The process that holds the job is killed outright."""

from tests.chaos.scenario import Fault
from tests.chaos.waiting import kill

FAULT = Fault(words="SIGKILL of the worker that has the job", strike=lambda world: kill(world.slot()))
