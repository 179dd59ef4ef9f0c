"""The process that holds the job is killed outright."""

from tests.chaos.killing import kill
from tests.chaos.scenario import Fault

FAULT = Fault(words="SIGKILL of the worker that has the job", strike=lambda world: kill(world.slot()))
