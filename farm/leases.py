"""Leases: one device, one holder, one fencing token, all in the job store.

Every function works inside the caller's transaction, so that "do I still have the device?" and the write that
depends on it are one step. The token of a device only grows; what an earlier holder still tries to write carries
a smaller token and is refused. Redis has no part in this (``docs/decisions/store-and-leases.md``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from engine.contract.errors import LeaseLost
from farm.store.database import insert_ignoring
from farm.store.models import LeaseRow

STOPPING = "stopping "
"""How the holder of a revoked lease is shown until it has stopped."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to use a device until ``expires`` (UTC seconds since 1970)."""

    device: str
    token: int
    holder: str
    expires: float


def acquire(session: Session, device: str, holder: str, ttl: float, now: float) -> Lease | None:
    """Take a free device for ``ttl`` seconds; None while somebody has it, be it the same holder."""
    row = lock(session, device)
    if row.holder and row.expires > now:
        return None
    row.token += 1
    row.holder = holder
    row.expires = now + ttl
    session.flush()
    return Lease(device=device, token=row.token, holder=holder, expires=row.expires)


def check(session: Session, lease: Lease, now: float) -> None:
    """Raise ``LeaseLost`` unless ``lease`` is the device's present one and has not expired."""
    _valid_row(session, lease, now)


def renew(session: Session, lease: Lease, ttl: float, now: float) -> Lease:
    """The heartbeat: the same lease until ``now + ttl``; ``LeaseLost`` when it is over."""
    row = _valid_row(session, lease, now)
    row.expires = now + ttl
    return replace(lease, expires=row.expires)


def release(session: Session, device: str, token: int) -> None:
    """Free the device if ``token`` is its present one; an older token frees nothing."""
    row = _locked(session, device)
    if row is not None and row.token == token and row.holder:
        row.holder = ""
        row.expires = 0.0


def revoke(session: Session, device: str, token: int) -> None:
    """Take a lease from a holder that still works: it can neither renew it nor write under it any more.

    Nobody else gets the device before that holder has stopped (``release``), or the time it had is over: its
    program may still run there.
    """
    row = _locked(session, device)
    if row is not None and row.token == token and row.holder:
        row.holder = f"{STOPPING}{row.holder}"[:255]


def is_valid(session: Session, device: str, token: int, now: float) -> bool:
    """True while the lease with ``token`` holds the device."""
    row = session.get(LeaseRow, device)
    return row is not None and bool(row.holder) and row.token == token and row.expires > now


def held(session: Session, now: float, device: str | None = None) -> set[str]:
    """Devices (or just ``device``) that somebody has at this moment."""
    query = select(LeaseRow.device).where(LeaseRow.holder != "", LeaseRow.expires > now)
    return set(session.scalars(query if device is None else query.where(LeaseRow.device == device)))


def lock(session: Session, device: str) -> LeaseRow:
    """The device's row, made if absent, and nobody else's until this transaction ends.

    Always lock a job before its device: then no two writers wait in a circle.
    """
    row = _locked(session, device)
    if row is None:
        made = {"device": device, "token": 0, "holder": "", "expires": 0.0}
        session.execute(insert_ignoring(session, LeaseRow).values(**made))  # two may be the first at once
        row = _locked(session, device)
    assert row is not None  # noqa: S101 - it was inserted, by us or by somebody else
    return row


def _locked(session: Session, device: str) -> LeaseRow | None:
    # FOR UPDATE for databases with row locks (it also reads the row anew: another holder's token may be there by
    # now); on SQLite the whole write transaction is exclusive already
    return session.get(LeaseRow, device, with_for_update=True)


def _valid_row(session: Session, lease: Lease, now: float) -> LeaseRow:
    row = _locked(session, lease.device)
    if row is not None and row.holder == lease.holder and row.token == lease.token and row.expires > now:
        return row
    raise LeaseLost(
        f"device {lease.device}: lease {lease.token} is over",
        hint="nothing to do: the job runs again under a new lease, unless it was cancelled",
        device=lease.device,
        token=lease.token,
    )
