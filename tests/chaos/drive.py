"""A command that drives a run and can be killed: ``python -m tests.chaos.drive STORE_URL RUN``."""

from __future__ import annotations

import sys

from farm import dispatch
from farm.session import FarmSession
from tests.chaos.world import EXECUTOR, LOST_MESSAGE_SECONDS

if __name__ == "__main__":
    dispatch.LOST_MESSAGE_SECONDS = LOST_MESSAGE_SECONDS
    with FarmSession(executor=EXECUTOR, slots=2, store_url=sys.argv[1]) as session:
        session.run(sys.argv[2])
