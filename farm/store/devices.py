"""The states of devices in the store: read, changed by what happens to them, held and released by people.

A device without a row is ready and has never failed. Functions that take a session work inside the caller's
transaction; a device's row is locked after its job and its lease, never before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Row, bindparam, select
from sqlalchemy.orm import Session

from engine.contract.errors import UsageError
from farm import leases
from farm.devicestates import MACHINE, NEEDS_PROOF, PERSON, DeviceRecord, DeviceState, allowed
from farm.health import Health, after_failure, after_pass, plain
from farm.jobs import JobError, JobStatus
from farm.store.database import Store
from farm.store.models import Base, DeviceEventRow, DeviceRow, JobRow, LeaseRow, RunRow

FAILED, PASSED, CLEARED, HELD, RELEASED = "failed", "passed", "cleared", "held", "released"
_ATTEMPTS = (FAILED, PASSED, CLEARED, RELEASED)
_NEW_WINDOW = (CLEARED, RELEASED)
_READY = DeviceState.READY
_DEVICES = Base.metadata.tables["devices"]
_RECORD = select(*(column for column in _DEVICES.c if column.key != "facts")).where(
    _DEVICES.c.name == bindparam("device")
)
_RECORD_LOCKED = _RECORD.with_for_update()


@dataclass(frozen=True, kw_only=True)
class DeviceEvent:
    """One line of a device's history. ``kind``: failed, passed, cleared, held or released."""

    at: float
    kind: str
    before: str
    after: str
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Use:
    """Who has a device now: which worker, and for which run of whom (empty for a probe)."""

    holder: str
    expires: float
    run: str = ""
    case: str = ""
    role: str = ""
    owner: str = ""


def record_of(session: Session, name: str, now: float, *, lock: bool = False) -> DeviceRecord:
    """The state of a device at ``now``."""
    row = session.execute(_RECORD_LOCKED if lock else _RECORD, {"device": name}).first()
    return DeviceRecord(name=name) if row is None else _record(row).at(now)


def records(session: Session, now: float) -> dict[str, DeviceRecord]:
    """The devices that have a row, by name; all others are ready."""
    return {row.name: _record(row).at(now) for row in session.scalars(select(DeviceRow))}


def hopeless(session: Session, now: float) -> dict[str, DeviceRecord]:
    """Devices that no job should wait for at ``now``, by name."""
    query = select(DeviceRow).where(DeviceRow.state.not_in([DeviceState.READY, DeviceState.COOLING]))
    found = (_record(row).at(now) for row in session.scalars(query))
    return {record.name: record for record in found if record.hopeless(now)}


def note_failure(session: Session, name: str, error: JobError, now: float, health: Health) -> DeviceRecord:
    """An attempt or a probe failed, and the device is to blame; returns its new state."""
    before = record_of(session, name, now, lock=True)
    failed = [True, *_window(session, name, health.of - 1)]
    after = after_failure(before, error, failed, now, health)
    _save(session, before, after, kind=FAILED, reason=error.message, now=now)
    return after


def note_pass(session: Session, name: str, now: float, reason: str) -> DeviceRecord:
    """An attempt or a probe went through; returns the new state. Costs one read for a device that never failed."""
    before = record_of(session, name, now, lock=True)
    if before == DeviceRecord(name=name):
        return before
    after = after_pass(before, now, reason)
    was = before.apart_from_holds.state
    if was is not after.apart_from_holds.state:
        kind = CLEARED if was in NEEDS_PROOF else PASSED
        _save(session, before, after, kind=kind, reason=reason, now=now)
    elif any(_window(session, name, 100)):
        _save(session, before, after, kind=PASSED, reason=reason, now=now)
    return after


def hold(store: Store, name: str, person: str, reason: str, until: float | None) -> DeviceRecord:
    """A person takes a device out of use, until they release it or the time (UTC seconds) they give.

    After that time the device is what it was before.
    """
    now = store.clock()
    with store.write() as session:
        leases.lock(session, name)
        before = record_of(session, name, now, lock=True)
        after = DeviceRecord(
            name=name,
            state=DeviceState.HELD,
            actor=PERSON + person,
            reason=plain(reason),
            since=now,
            until=until,
            probed=before.probed,
            beneath=before.without_hold_of(PERSON + person),
        )
        _save(session, before, after, kind=HELD, reason=reason, now=now)
        return after


def release(store: Store, name: str, person: str) -> DeviceRecord:
    """A person says that a device is fine; ``UsageError`` when it is ready already. Its next lease proves it."""
    now = store.clock()
    with store.write() as session:
        leases.lock(session, name)
        before = record_of(session, name, now, lock=True)
        if before.state is _READY:
            raise UsageError(
                f"{name} is ready: there is nothing to release", hint="`lockstep devices` shows the states"
            )
        bare = before.apart_from_holds.state
        reason = f"was {before.state}" + (f", before that {bare}" if bare not in (before.state, _READY) else "")
        after = DeviceRecord(name=name, actor=PERSON + person, reason=reason, since=now, probed=before.probed)
        _save(session, before, after, kind=RELEASED, reason=reason, now=now)
        return after


def events_of(store: Store, name: str, limit: int = 50) -> tuple[DeviceEvent, ...]:
    """The last ``limit`` things that happened to a device, newest first."""
    query = select(DeviceEventRow).where(DeviceEventRow.device == name)
    with store.read() as session:
        rows = session.scalars(query.order_by(DeviceEventRow.at.desc(), DeviceEventRow.id.desc()).limit(limit))
        return tuple(
            DeviceEvent(at=r.at, kind=r.kind, before=r.before, after=r.after, actor=r.actor, reason=r.reason)
            for r in rows
        )


def uses(session: Session, now: float) -> dict[str, Use]:
    """Who holds which device at ``now``, and what runs there."""
    query = (
        select(
            LeaseRow.device, LeaseRow.holder, LeaseRow.expires, JobRow.run_id, JobRow.case, JobRow.role, RunRow.owner
        )
        .outerjoin(JobRow, (JobRow.device == LeaseRow.device) & (JobRow.status == JobStatus.RUNNING))
        .outerjoin(RunRow, RunRow.id == JobRow.run_id)
        .where(LeaseRow.holder != "", LeaseRow.expires > now)
    )
    return {
        device: Use(holder=holder, expires=expires, run=run or "", case=case or "", role=role or "", owner=owner or "")
        for device, holder, expires, run, case, role, owner in session.execute(query)
    }


def _window(session: Session, name: str, size: int) -> Sequence[bool]:
    """Of the last attempts, newest first, at most ``size``: which failed. Being cleared begins a new window."""
    query = (
        select(DeviceEventRow.kind)
        .where(DeviceEventRow.device == name, DeviceEventRow.kind.in_(_ATTEMPTS))
        .order_by(DeviceEventRow.at.desc(), DeviceEventRow.id.desc())
        .limit(size)
    )
    found = []
    for kind in session.scalars(query):
        if kind in _NEW_WINDOW:
            break
        found.append(kind == FAILED)
    return found


def _save(session: Session, before: DeviceRecord, after: DeviceRecord, *, kind: str, reason: str, now: float) -> None:
    if before.state is not after.state and not allowed(before.state, after.state, after.actor):
        raise AssertionError(f"{before.name}: {after.actor} may not turn {before.state} into {after.state}")
    row = session.get(DeviceRow, after.name)
    if row is None:
        row = DeviceRow(name=after.name, facts=None)
        session.add(row)
    row.state, row.actor, row.reason, row.since = after.state, after.actor, after.reason, after.since
    row.until, row.failures, row.not_before, row.probed = after.until, after.failures, after.not_before, after.probed
    row.beneath = asdict(after.beneath) if after.beneath else None
    session.add(
        DeviceEventRow(
            device=after.name,
            at=now,
            kind=kind,
            before=before.state,
            after=after.state,
            actor=after.actor if kind in (HELD, RELEASED) else MACHINE,
            reason=plain(reason),
        )
    )
    session.flush()


def _record(row: DeviceRow | Row[Any]) -> DeviceRecord:
    return DeviceRecord(
        name=row.name,
        state=DeviceState(row.state),
        actor=row.actor,
        reason=row.reason,
        since=row.since,
        until=row.until,
        failures=row.failures,
        not_before=row.not_before,
        probed=row.probed,
        beneath=_beneath(row.beneath),
    )


def _beneath(kept: Mapping[str, Any] | None) -> DeviceRecord | None:
    if kept is None:
        return None
    return DeviceRecord(**{**kept, "state": DeviceState(kept["state"]), "beneath": _beneath(kept["beneath"])})
