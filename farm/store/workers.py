"""Which worker hosts are there, and which queues they serve: a row that its host renews."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from engine.contract.errors import UsageError
from farm.jobs import JobStatus
from farm.store.database import Store, take_turns
from farm.store.jobs import whoami
from farm.store.models import JobRow, RunRow, WorkerRow

BEAT_SECONDS = 3.0
STALE_SECONDS = 15.0
"""A worker host that was not seen for this long is not there."""


@dataclass(frozen=True, kw_only=True)
class WorkerView:
    """One worker host. ``name`` is ``PID@HOSTNAME``; times are UTC seconds since 1970.

    ``slots``: how many of its slots take messages now. Without the broker that is none.
    """

    name: str
    queue: str
    slots: int
    owner: str
    started: float
    seen: float


def join(store: Store, name: str, queue: str, *, alone: bool) -> None:
    """Say that ``name`` is there for ``queue``, with no slot yet; forget those of that queue that died.

    ``alone``: the queue is a device host's, and a second server elsewhere would not have its devices:
    ``UsageError`` when one is there.
    """
    now = store.clock()
    with store.write() as session:
        take_turns(session)  # before any row is touched: two that come at once would wait for each other
        session.execute(delete(WorkerRow).where(WorkerRow.name == name))
        _enter(session, name, queue, 0, now, alone=alone)


def beat(store: Store, name: str, queue: str, slots: int, *, alone: bool) -> None:
    """Still there, and so many slots take messages.

    Who was away for long may have been forgotten, and joins again: ``UsageError`` as above.
    """
    now = store.clock()
    with store.write() as session:
        mine = update(WorkerRow).where(WorkerRow.name == name).values(seen=now, slots=slots)
        if not session.execute(mine.returning(WorkerRow.name)).first():
            take_turns(session)
            _enter(session, name, queue, slots, now, alone=alone)


def _enter(session: Session, name: str, queue: str, slots: int, now: float, *, alone: bool) -> None:
    gone = WorkerRow.seen <= now - STALE_SECONDS
    session.execute(delete(WorkerRow).where(WorkerRow.queue == queue, gone))
    other = session.scalars(select(WorkerRow).where(WorkerRow.queue == queue)).first() if alone else None
    if other is not None:
        raise UsageError(
            f"{queue} is served already, by {other.name}",
            hint=f"give this host a name of its own, or end the other; one that died is forgotten after "
            f"{STALE_SECONDS:.0f} s",
        )
    session.add(WorkerRow(name=name, queue=queue, slots=slots, owner=whoami(), started=now, seen=now))


def leave(store: Store, name: str) -> None:
    """Ended in order."""
    with store.write() as session:
        session.execute(delete(WorkerRow).where(WorkerRow.name == name))


def present(store: Store) -> tuple[WorkerView, ...]:
    """The worker hosts that are there now, by queue."""
    fresh = WorkerRow.seen > store.clock() - STALE_SECONDS
    with store.read() as session:
        rows = session.scalars(select(WorkerRow).where(fresh).order_by(WorkerRow.queue, WorkerRow.name))
        return tuple(
            WorkerView(
                name=row.name,
                queue=row.queue,
                slots=row.slots,
                owner=row.owner,
                started=row.started,
                seen=row.seen,
            )
            for row in rows
        )


def busy(store: Store, queue: str) -> bool:
    """Whether a job that came through ``queue`` runs now, of whatever run."""
    through = (JobRow.queue == queue) | ((JobRow.queue == "") & (RunRow.driver == queue))
    running = (RunRow.status == "running") & (JobRow.status == JobStatus.RUNNING)
    with store.read() as session:
        query = select(JobRow.id).join(RunRow, RunRow.id == JobRow.run_id).where(running, through).limit(1)
        return session.execute(query).first() is not None
