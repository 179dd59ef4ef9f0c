"""Who holds which device now: the worker, the run, and who asked for that run."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, or_, select

from farm.store.database import Store
from farm.store.models import AttemptRow, JobRow, LeaseRow, RunRow


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The holder of one device. ``worker`` names process and host; ``since`` is UTC seconds since 1970."""

    device: str
    worker: str
    run: str
    owner: str
    case: str
    since: float

    def __str__(self) -> str:
        return f"{self.owner or 'somebody'}, run {self.run}, case {self.case}, on {self.worker}"


def holders(store: Store) -> dict[str, Holder]:
    """Holders of the devices that are leased at this moment."""
    here = or_(AttemptRow.device == LeaseRow.device, and_(AttemptRow.device == "", JobRow.device == LeaseRow.device))
    query = (
        select(LeaseRow.device, AttemptRow.worker, AttemptRow.started, JobRow.run_id, JobRow.case, RunRow.owner)
        .join(AttemptRow, AttemptRow.token == LeaseRow.token)
        .join(JobRow, JobRow.id == AttemptRow.job_id)
        .join(RunRow, RunRow.id == JobRow.run_id)
        .where(LeaseRow.holder != "", LeaseRow.expires > store.clock(), here)
    )
    with store.read() as session:
        rows = session.execute(query).all()
    return {
        device: Holder(device=device, worker=worker, run=run, owner=owner, case=case, since=since)
        for device, worker, since, run, case, owner in rows
    }
