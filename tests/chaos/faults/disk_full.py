"""Somebody else fills the device's disk."""

import os
from typing import IO

import pytest

from tests.chaos.scenario import FAR_LINKS, Fault
from tests.chaos.world import Evidence, World

PHOTOS = "photos"
#: What the farm may have removed of its own since.
ROOM_MB = 16


def strike(world: World) -> None:
    with (world.device().disk / PHOTOS).open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        fill(file)


def fill(file: IO[bytes]) -> None:
    while True:
        file.write(bytes(1 << 20))


def proof(world: World, _: Evidence) -> None:
    disk = world.device().disk
    assert (disk / PHOTOS).exists(), "nobody filled the disk"
    room = os.statvfs(disk)
    assert room.f_bavail * room.f_frsize < ROOM_MB << 20, room


FAULT = Fault(
    words="device disk full",
    proof=proof,
    strike=strike,
    links=FAR_LINKS,
    small_disk=True,
    ends="infra",
    but=(("collecting", "pass"), ("storing", "pass")),
)
