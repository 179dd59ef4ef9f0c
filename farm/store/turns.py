"""Whose turn it is on a device: jobs of a better priority go first, over all runs of all controllers.

Devices are the scarce thing, so a device is held for a better job even while that job waits for a slot of its own
session. Runs of equal priority take turns job by job. ``docs/hosts.md`` says what this costs.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from farm.jobs import JobStatus
from farm.store.jobs import RUN_STALE_SECONDS
from farm.store.models import Base

SOON_SECONDS = 1.0
"""A job that may go again this soon (its device was busy a moment ago) counts as waiting."""


_JOBS, _RUNS = Base.metadata.tables["jobs"], Base.metadata.tables["runs"]
_AWAITED = (
    select(_JOBS.c.id)
    .join_from(_JOBS, _RUNS, _RUNS.c.id == _JOBS.c.run_id)
    .where(
        _JOBS.c.device == bindparam("device"),
        _JOBS.c.status == JobStatus.QUEUED,
        _JOBS.c.not_before <= bindparam("soon"),
        _RUNS.c.status == "running",
        _RUNS.c.seen > bindparam("alive"),
        _RUNS.c.priority < bindparam("priority"),
    )
    .limit(1)
)


def awaited(session: Session, now: float, priority: int, device: str) -> bool:
    """True while a queued job of a better priority waits for the device, in a living run."""
    terms = {"device": device, "priority": priority, "soon": now + SOON_SECONDS, "alive": now - RUN_STALE_SECONDS}
    return session.execute(_AWAITED, terms).first() is not None
