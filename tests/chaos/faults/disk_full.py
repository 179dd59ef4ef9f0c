"""Somebody else fills the device's disk."""

from typing import IO

import pytest

from tests.chaos.scenario import Fault
from tests.chaos.world import World


def strike(world: World) -> None:
    assert world.sshd is not None
    photos = world.sshd.outside(world.device_folder) / "photos"
    with photos.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        fill(file)


def fill(file: IO[bytes]) -> None:
    while True:
        file.write(bytes(1 << 20))


FAULT = Fault(
    words="device disk full",
    strike=strike,
    links=("ssh",),
    small_disk=True,
    ends="infra",
    but=(("collecting", "pass"), ("storing", "pass")),
)
