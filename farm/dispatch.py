"""Which jobs go to the queue next. No store, no clock: jobs go in, decisions come out.

A board keeps its jobs arranged, so that a decision costs what changed and not what there is: with a thousand devices
and twenty thousand jobs, looking at each job whenever one of them moves would be all that the controller does.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from farm.jobs import JobStatus, JobView

LOST_MESSAGE_SECONDS = 5.0
"""A message nobody took for this long, though a slot is free, is gone (a broker without its data).

Twice as long before the first job started: the slots may not be up yet, or have died with the messages they took.
"""
SLOW_MESSAGE_SECONDS = 30.0
"""The same where we do not know how many slots there are."""


def outstanding(job: JobView) -> bool:
    """Sent to the queue or running, and not ended."""
    return job.status == JobStatus.RUNNING or (job.status == JobStatus.QUEUED and job.dispatched is not None)


@dataclass
class _Lane:
    """The jobs of one device: those that wait, by turn (ended or sent ones are dropped when they come up)."""

    waiting: dict[str, int] = field(default_factory=dict)
    turns: list[tuple[int, str]] = field(default_factory=list)
    cost: float = 0.0
    away: int = 0

    def head(self) -> str | None:
        """The job whose turn it is."""
        while self.turns and self.waiting.get(self.turns[0][1]) != self.turns[0][0]:
            heapq.heappop(self.turns)
        return self.turns[0][1] if self.turns else None


class Board:
    """The jobs of one queue. ``put`` tells it of each job, new or changed."""

    def __init__(self, jobs: Iterable[JobView] = ()) -> None:
        self._jobs: dict[str, JobView] = {}
        self._lanes: dict[str, _Lane] = {}
        self._away: dict[str, JobView] = {}
        self._order: list[tuple[float, str]] = []
        self._moved = 0.0
        self._started = False
        self._taken = 0
        for job in jobs:
            self.put(job)

    def put(self, job: JobView) -> None:
        """Take note of a job as it is now."""
        before = self._jobs.get(job.id)
        if before is not None:
            self._take_out(before)
        self._jobs[job.id] = job
        lane = self._lanes.setdefault(job.device, _Lane())
        if outstanding(job):
            self._away[job.id] = job
            lane.away += 1
        elif job.status == JobStatus.QUEUED:
            lane.waiting[job.id] = job.position
            lane.cost += job.cost
            heapq.heappush(lane.turns, (job.position, job.id))
        self._started = self._started or job.started is not None
        self._moved = max(self._moved, job.started or 0.0, job.finished or 0.0)
        self._taken += before is not None and outstanding(before) and job.status.ended
        self._line_up(job.device)

    @property
    def away(self) -> int:
        """How many jobs are sent to the queue or running."""
        return len(self._away)

    def on_their_way(self) -> list[JobView]:
        """The jobs that are sent to the queue or running."""
        return list(self._away.values())

    def room(self, slots: int) -> int:
        """How many messages more the queue of ``slots`` slots can take, so that no slot ever waits for our next look.

        One for each slot beside the job that it runs; where jobs are so short that more of them ended since the last
        call, twice as many as those. No more: a device whose job waits in the queue is kept from everybody else.
        """
        taken, self._taken = self._taken, 0
        return slots + max(slots, 2 * taken) - self.away

    @property
    def waits(self) -> bool:
        """True while a job may still have to be sent."""
        return bool(self._order)

    def choose(self, busy: Collection[str], now: float, room: int) -> list[JobView]:
        """At most ``room`` jobs to send now, at most one a device, none for a ``busy`` device.

        A device's jobs go strictly by position, also when the first one waits for its retry: HEAD and BASE of a case
        are measured in turn. The device with the largest cost (seconds) still to come goes first.
        """
        chosen: list[JobView] = []
        looked_at: list[tuple[float, str]] = []
        seen: set[str] = set()
        while self._order and len(chosen) < room:
            entry = heapq.heappop(self._order)
            cost, device = entry
            lane = self._lanes[device]
            head = lane.head()
            if device in seen or head is None or lane.away or -cost != lane.cost:
                continue  # an entry that something newer has taken the place of
            seen.add(device)
            looked_at.append(entry)
            job = self._jobs[head]
            if device not in busy and job.not_before <= now:
                chosen.append(job)
        for entry in looked_at:
            heapq.heappush(self._order, entry)
        return chosen

    def lost_messages(self, now: float, slots: int | None) -> list[JobView]:
        """Jobs whose message must be sent again. ``slots`` is how many jobs can run at a time, None if unknown.

        A message sent twice does no harm: the second one finds its job claimed. Patience begins anew whenever a slot
        took or ended a job: until then the message had to wait for a slot.
        """
        running = sum(job.status == JobStatus.RUNNING for job in self._away.values())
        if slots is not None and running >= slots:
            return []
        soon = LOST_MESSAGE_SECONDS if self._started else 2 * LOST_MESSAGE_SECONDS
        patience = SLOW_MESSAGE_SECONDS if slots is None else soon
        return [
            job
            for job in self._away.values()
            if job.status == JobStatus.QUEUED
            and job.dispatched is not None
            and max(job.dispatched, self._moved) + patience <= now
        ]

    def _take_out(self, job: JobView) -> None:
        lane = self._lanes[job.device]
        if self._away.pop(job.id, None) is not None:
            lane.away -= 1
        elif job.id in lane.waiting:
            del lane.waiting[job.id]
            lane.cost = lane.cost - job.cost if lane.waiting else 0.0
        self._line_up(job.device)  # also when it goes on elsewhere: others may wait for this device

    def _line_up(self, device: str) -> None:
        lane = self._lanes[device]
        if lane.waiting and not lane.away:
            heapq.heappush(self._order, (-lane.cost, device))
