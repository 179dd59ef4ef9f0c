"""Leases: one device, one holder, one fencing token, all in the job store.

Every function works inside the caller's transaction, so that "do I still have the device?" and the write that
depends on it are one step. The token of a device only grows; what an earlier holder still tries to write carries
a smaller token and is refused. Redis has no part in this (``docs/decisions/store-and-leases.md``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningUpdate

from engine.contract.errors import LeaseLost
from farm.store.database import inserts
from farm.store.models import Base

STOPPING = "stopping "
"""How the holder of a revoked lease is shown until it has stopped."""
HOLDER_CHARACTERS = 255


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to use a device until ``expires`` (UTC seconds since 1970)."""

    device: str
    token: int
    holder: str
    expires: float


# Every job comes through here: the statements are built once, and each says itself what must be true for it to act
_LEASES: Table = Base.metadata.tables["leases"]
_OF_DEVICE = _LEASES.c.device == bindparam("of_device")
_WITH_TOKEN = (_LEASES.c.token == bindparam("with_token")) & (_LEASES.c.holder != "")
_VALID = _WITH_TOKEN & (_LEASES.c.holder == bindparam("held_by")) & (_LEASES.c.expires > bindparam("now"))
_ACQUIRE = {
    name: insert(_LEASES)
    .values(device=bindparam("of_device"), token=1, holder=bindparam("taker"), expires=bindparam("until"))
    .on_conflict_do_update(
        index_elements=[_LEASES.c.device],
        set_={"token": _LEASES.c.token + 1, "holder": bindparam("taker"), "expires": bindparam("until")},
        where=(_LEASES.c.holder == "") | (_LEASES.c.expires <= bindparam("now")),
    )
    .returning(_LEASES.c.token)
    for name, insert in inserts.items()
}
_MAKE = {
    name: insert(_LEASES)
    .values(device=bindparam("of_device"), token=0, holder="", expires=0.0)
    .on_conflict_do_nothing()
    for name, insert in inserts.items()
}
# FOR UPDATE is for databases with row locks; on SQLite the whole write transaction is exclusive already
_LOCK = select(_LEASES.c.expires).where(_OF_DEVICE).with_for_update()
_LOCK_VALID = select(_LEASES.c.token).where(_OF_DEVICE, _VALID).with_for_update()
_RENEW = update(_LEASES).where(_OF_DEVICE, _VALID).values(expires=bindparam("until")).returning(_LEASES.c.token)
_FREE = update(_LEASES).values(holder="", expires=0.0)
_GIVE_BACK = _FREE.where(_OF_DEVICE, _VALID).returning(_LEASES.c.token)
_RELEASE = _FREE.where(_OF_DEVICE, _WITH_TOKEN)
_REVOKE = (
    update(_LEASES)
    .where(_OF_DEVICE, _WITH_TOKEN)
    .values(holder=func.substr(bindparam("mark", STOPPING) + _LEASES.c.holder, 1, HOLDER_CHARACTERS))
)
_IS_VALID = select(_LEASES.c.token).where(_OF_DEVICE, _WITH_TOKEN, _LEASES.c.expires > bindparam("now"))


def acquire(session: Session, device: str, holder: str, ttl: float, now: float) -> Lease | None:
    """Take a free device for ``ttl`` seconds; None while somebody has it, be it the same holder."""
    wanted = {"of_device": device, "taker": holder, "until": now + ttl, "now": now}
    token = session.execute(_ACQUIRE[session.get_bind().dialect.name], wanted).scalar()
    return None if token is None else Lease(device=device, token=token, holder=holder, expires=now + ttl)


def check(session: Session, lease: Lease, now: float) -> None:
    """Raise ``LeaseLost`` unless ``lease`` is the device's present one and has not expired."""
    if session.execute(_LOCK_VALID, _terms(lease, now)).first() is None:
        raise _lost(lease)


def renew(session: Session, lease: Lease, ttl: float, now: float) -> Lease:
    """The heartbeat: the same lease until ``now + ttl``; ``LeaseLost`` when it is over."""
    _act_under(session, _RENEW, lease, {**_terms(lease, now), "until": now + ttl})
    return replace(lease, expires=now + ttl)


def give_back(session: Session, lease: Lease, now: float) -> None:
    """Free the device whose work is done; ``LeaseLost`` when the lease is over."""
    _act_under(session, _GIVE_BACK, lease, _terms(lease, now))


def release(session: Session, device: str, token: int) -> None:
    """Free the device if ``token`` is its present one; an older token frees nothing."""
    session.execute(_RELEASE, {"of_device": device, "with_token": token})


def revoke(session: Session, device: str, token: int) -> None:
    """Take a lease from a holder that still works: it can neither renew it nor write under it any more.

    Nobody else gets the device before that holder has stopped (``release``), or the time it had is over: its
    program may still run there.
    """
    session.execute(_REVOKE, {"of_device": device, "with_token": token})


def is_valid(session: Session, device: str, token: int, now: float) -> bool:
    """True while the lease with ``token`` holds the device."""
    return session.execute(_IS_VALID, {"of_device": device, "with_token": token, "now": now}).first() is not None


def lock(session: Session, device: str) -> float:
    """Until when somebody has the device (0.0: nobody); nobody else can change that until this transaction ends.

    Always lock a job before its device: then no two writers wait in a circle.
    """
    expires = session.execute(_LOCK, {"of_device": device}).scalar()
    if expires is None:  # never leased; two may be the first at once
        session.execute(_MAKE[session.get_bind().dialect.name], {"of_device": device})
        expires = session.execute(_LOCK, {"of_device": device}).scalar_one()
    return float(expires)


def _terms(lease: Lease, now: float) -> dict[str, object]:
    return {"of_device": lease.device, "with_token": lease.token, "held_by": lease.holder, "now": now}


def _act_under(session: Session, change: ReturningUpdate[tuple[int]], lease: Lease, terms: dict[str, object]) -> None:
    if session.execute(change, terms).first() is None:
        raise _lost(lease)


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"device {lease.device}: lease {lease.token} is over",
        hint="nothing to do: the job runs again under a new lease, unless it was cancelled",
        device=lease.device,
        token=lease.token,
    )
