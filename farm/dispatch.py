"""Which jobs go to the queue next: a pure decision over the job table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from farm.jobs import JobStatus, JobView

LOST_MESSAGE_SECONDS = 5.0
"""A message nobody took for this long, though a slot is free, is gone (a broker without its data)."""
SLOW_MESSAGE_SECONDS = 30.0
"""The same where we do not know how many slots there are, or whether they are up."""


def outstanding(job: JobView) -> bool:
    """Sent to the queue or running, and not ended."""
    return job.status == JobStatus.RUNNING or (job.status == JobStatus.QUEUED and job.dispatched is not None)


def choose(jobs: Sequence[JobView], busy: Collection[str], now: float, room: int) -> list[JobView]:
    """At most ``room`` jobs to send now, at most one a device, none for a ``busy`` device.

    A device's jobs go strictly by position, also when the first one waits for its retry: HEAD and BASE of a case
    are measured in turn. The device with the largest cost (seconds) still to come goes first.
    """
    waiting: dict[str, list[JobView]] = defaultdict(list)
    taken = set(busy)
    for job in jobs:
        if outstanding(job):
            taken.add(job.device)
        elif job.status == JobStatus.QUEUED:
            waiting[job.device].append(job)
    free = [sorted(queue, key=_turn) for device, queue in waiting.items() if device not in taken]
    ready = [queue for queue in free if queue[0].not_before <= now]
    ready.sort(key=lambda queue: (-sum(job.cost for job in queue), queue[0].device))
    return [queue[0] for queue in ready[: max(0, room)]]


def lost_messages(jobs: Sequence[JobView], now: float, slots: int | None) -> list[JobView]:
    """Jobs whose message must be sent again. ``slots`` is how many jobs can run at a time, None if unknown.

    A message sent twice does no harm: the second one finds its job claimed. Patience begins anew whenever a slot
    took or ended a job: until then the message had to wait for a slot.
    """
    running = sum(job.status == JobStatus.RUNNING for job in jobs)
    if slots is not None and running >= slots:
        return []
    workers_are_up = slots is not None and any(job.started is not None for job in jobs)
    moved = max((moment for job in jobs for moment in (job.started, job.finished) if moment is not None), default=0.0)
    patience = LOST_MESSAGE_SECONDS if workers_are_up else SLOW_MESSAGE_SECONDS
    return [
        job
        for job in jobs
        if job.status == JobStatus.QUEUED
        and job.dispatched is not None
        and max(job.dispatched, moved) + patience <= now
    ]


def _turn(job: JobView) -> tuple[int, str]:
    return job.position, job.id
