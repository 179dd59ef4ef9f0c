"""The device restarts: all that runs there ends, and the link is away for a moment."""

from tests.chaos.scenario import FAR_LINKS, Fault

FAULT = Fault(words="device reboots", strike=lambda world: world.device().reboot(), links=FAR_LINKS)
