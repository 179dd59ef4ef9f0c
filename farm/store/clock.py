"""A host whose wall clock jumps: notice it, and let the times of a run follow.

Leases, delays and time limits are kept as wall-clock times, because several hosts read them. When the clock of the
controller's host is set, they would all be over at once, or for ever in the future.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import InstrumentedAttribute

from farm.jobs import JobStatus
from farm.store.database import Store
from farm.store.models import DeviceRow, JobRow, LeaseRow

JUMP_SECONDS = 1.0
"""A smaller step of the clock hurts no lease."""


class ClockWatch:
    """Compares a wall clock with the one that nobody can set."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ahead = clock() - time.monotonic()

    def jump(self) -> float:
        """Seconds that the clock jumped since the last question; 0.0 when it only went on."""
        before, self._ahead = self._ahead, self._clock() - time.monotonic()
        jump = self._ahead - before
        return jump if abs(jump) >= JUMP_SECONDS else 0.0


def follow_clock(store: Store, run_id: str, jump: float) -> None:
    """Move the times of a run's open jobs, and of the leases and delays of their devices, by ``jump`` seconds.

    What was written after the jump already fits and stays.
    """
    now = store.clock()
    with store.write() as session:
        mine = select(JobRow.device).where(JobRow.run_id == run_id, JobRow.status == JobStatus.RUNNING)
        waiting = select(JobRow.device).where(JobRow.run_id == run_id, JobRow.finished.is_(None))
        for column in (JobRow.not_before, JobRow.dispatched, JobRow.started):
            moved = update(JobRow).where(JobRow.run_id == run_id, JobRow.finished.is_(None), _old(column, now, jump))
            session.execute(moved.values({column: column + jump}))
        lease = update(LeaseRow).where(LeaseRow.device.in_(mine), LeaseRow.holder != "")
        session.execute(lease.where(_old(LeaseRow.expires, now, jump)).values(expires=LeaseRow.expires + jump))
        delay = update(DeviceRow).where(DeviceRow.name.in_(waiting), _old(DeviceRow.not_before, now, jump))
        session.execute(delay.values(not_before=DeviceRow.not_before + jump))


def _old(
    column: InstrumentedAttribute[float] | InstrumentedAttribute[float | None], now: float, jump: float
) -> ColumnElement[bool]:
    """Was written before the jump: far behind a clock that went forward, far ahead of one that went back."""
    return column <= now - jump / 2 if jump > 0 else column >= now - jump / 2
