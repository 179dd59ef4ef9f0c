"""Moving a job to another unit of the same chip and model: what a run's plan says about units, applied in the store.

The plan of a run (``RunSpec.payload["units"]``) names for each device its ``group`` (units of one group are
interchangeable), its ``device`` document, which takes the place of the one in the job's spec, and the ``queue`` of the
host that reaches it.
"""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.devicestates import DeviceState
from farm.jobs import JobStatus, Role
from farm.store.devices import record_of
from farm.store.models import AttemptRow, JobRow, RunRow


def move(session: Session, run: RunRow, row: JobRow, now: float, why: str) -> bool:
    """Let another ready unit do a head job, and its base with it: both must run on one unit. False if none can.

    ``why`` is kept with the job: what is wrong with the unit that it leaves.
    A base job never moves alone, a confirmation never: it is about the unit that it names.
    """
    units = run.payload.get("units") or {}
    if row.role != Role.HEAD or row.device not in units:
        return False
    base = _base_of(session, row)
    if any(job.attempts for job in base):
        return False
    tried = set(session.scalars(select(AttemptRow.device).where(AttemptRow.job_id == row.id)))
    group = units[row.device]["group"]
    others = [name for name, unit in units.items() if unit["group"] == group and name not in tried | {row.device}]
    ready = [name for name in others if record_of(session, name, now).state is DeviceState.READY]
    if not ready:
        return False
    load = _load(session, run.id, ready)
    target = min(ready, key=lambda name: (load.get(name, 0), name))
    for job in (row, *base):
        planned = job.spec.get("planned", job.device)
        job.spec = {**job.spec, "device": units[target]["device"], "planned": planned, "moved": why}
        job.device = target
        job.queue = units[target].get("queue", job.queue)
        job.dispatched = None
    session.flush()
    return True


def _base_of(session: Session, row: JobRow) -> list[JobRow]:
    query = select(JobRow).where(
        JobRow.run_id == row.run_id,
        JobRow.case == row.case,
        JobRow.device == row.device,
        JobRow.role.in_((Role.BASE, Role.CPU)),
        JobRow.status == JobStatus.QUEUED,
    )
    planned = row.spec.get("planned", row.device)
    return [job for job in session.scalars(query.with_for_update()) if job.spec.get("planned", job.device) == planned]


def _load(session: Session, run_id: str, names: list[str]) -> dict[str, int]:
    """How many jobs of the run each of these devices still has."""
    query = select(JobRow.device, func.count()).where(
        JobRow.run_id == run_id, JobRow.device.in_(names), JobRow.status.in_([JobStatus.QUEUED, JobStatus.RUNNING])
    )
    return {row[0]: row[1] for row in session.execute(query.group_by(JobRow.device))}
