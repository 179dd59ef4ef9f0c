"""Whose turn it is on a device: jobs of a better priority go first, over all runs of all controllers.

Devices are the scarce thing, so a device is held for a better job even while that job waits for a slot of its own
session. Runs of equal priority take turns job by job. ``docs/hosts.md`` says what this costs.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.jobs import JobStatus
from farm.store.jobs import RUN_STALE_SECONDS
from farm.store.models import JobRow, RunRow

SOON_SECONDS = 1.0
"""A job that may go again this soon (its device was busy a moment ago) counts as waiting."""


def awaited_devices(session: Session, now: float, priority: int, device: str | None = None) -> set[str]:
    """Devices (or just ``device``) that a queued job of a better priority waits for, in a living run."""
    query = (
        select(JobRow.device)
        .distinct()
        .join(RunRow, RunRow.id == JobRow.run_id)
        .where(
            JobRow.status == JobStatus.QUEUED,
            JobRow.not_before <= now + SOON_SECONDS,
            RunRow.status == "running",
            RunRow.seen > now - RUN_STALE_SECONDS,
            RunRow.priority < priority,
        )
    )
    if device is not None:
        query = query.where(JobRow.device == device)
    return set(session.scalars(query))
