"""One write to the store fails in a worker."""

from tests.chaos.scenario import Fault

FAULT = Fault(words="a worker's write to the store fails once", strike=lambda world: world.order("write-fails"))
