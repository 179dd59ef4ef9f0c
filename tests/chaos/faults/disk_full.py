"""Somebody else fills the device's disk."""

from typing import IO

import pytest

from tests.chaos.scenario import FAR_LINKS, Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    with (world.device().disk / "photos").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        fill(file)


def fill(file: IO[bytes]) -> None:
    while True:
        file.write(bytes(1 << 20))


FAULT = Fault(
    words="device disk full",
    strike=strike,
    links=FAR_LINKS,
    small_disk=True,
    ends="infra",
    but=(("collecting", "pass"), ("storing", "pass")),
)
