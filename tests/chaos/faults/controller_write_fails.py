"""One write to the store fails in the controller."""

from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from tests.chaos.scenario import Fault
from tests.chaos.world import Evidence, World
from tests.waiting import wait_until

WORDS = "disk I/O error"


def strike(_: World) -> None:
    failed: list[str] = []

    def fail(_connection: Any, _cursor: Any, statement: str, *_words: Any) -> None:
        if not failed and statement.startswith(("UPDATE", "INSERT")):
            failed.append(statement)
            raise OperationalError(statement, {}, Exception(WORDS))

    event.listen(Engine, "before_cursor_execute", fail)
    try:
        wait_until(lambda: failed)
    finally:
        event.remove(Engine, "before_cursor_execute", fail)


def proof(world: World, _: Evidence) -> None:
    assert WORDS in world.controllers_log(), "the controller met no failed write"


FAULT = Fault(words="a write of the controller to the store fails once", proof=proof, strike=strike)
