"""An adb of another version on the host ends our adb server and takes its place (case D7).

Only adb has a server between the farm and its devices.
"""

from tests.chaos.boards import AdbBoard
from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World


def adb(world: World) -> AdbBoard:
    assert isinstance(world.board, AdbBoard)
    return world.board


def proof(world: World, _: Evidence) -> None:
    assert adb(world).server_ended, "the server is the one of before"


FAULT = Fault(
    words="adb server killed by another version, which takes its place",
    proof=proof,
    arm=lambda world: adb(world).start_server(),
    strike=lambda world: adb(world).replace_server(),
    links=("adb",),
)
