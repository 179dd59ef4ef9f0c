"""The states of a device, and who may change which into which. Pure: no store, no clock.

::

                      ┌── an attempt or a probe fails ──┐
                      │                                 ▼
    ready ◄─ probe ── cooling       the link works, the last attempt failed; used again after a while
      │   ◄─ probe ── offline       it does not answer; tried again after a while
      │   ◄─ probe ── quarantined   it failed too often; one job at a time is its probe, later and later
      │   ◄─ probe ── unauthorized  it does not let us in; a person does that on the device, then as above
      │   ◄─ person ─ host-key-changed   it shows another host key; only a person can say that it is the same
      └── person ───► held          a person keeps it; ends when they say so, or at the time they gave

A hold lies upon the state that the device had: at the time given the device is again what it was before, or what its
attempts made of that meanwhile. A hold by somebody else lies upon the first one; their own new hold takes the place of
their old one.

A passed probe is a preflight that went through: of a job's attempt, or of ``lockstep devices --probe``. ``leased`` is
not stored: it follows from the leases. A person may hold a device in any state, and release it from any to ``ready``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

MACHINE = "machine"
PERSON = "person:"


class DeviceState(StrEnum):
    """What a device is, apart from being leased."""

    READY = "ready"
    COOLING = "cooling"
    OFFLINE = "offline"
    QUARANTINED = "quarantined"
    UNAUTHORIZED = "unauthorized"
    HOST_KEY_CHANGED = "host-key-changed"
    HELD = "held"


_S = DeviceState
WAITS_FOR_A_PERSON = frozenset({_S.HOST_KEY_CHANGED, _S.HELD})
"""The machine never leaves these, whatever it sees."""
NEEDS_PROOF = frozenset({_S.QUARANTINED, _S.UNAUTHORIZED})
"""No job waits for these; one is let through as a probe when its time has come."""

_TROUBLE = frozenset({_S.COOLING, _S.OFFLINE, _S.QUARANTINED, _S.UNAUTHORIZED, _S.HOST_KEY_CHANGED})
BY_MACHINE: dict[DeviceState, frozenset[DeviceState]] = {
    _S.READY: _TROUBLE,
    _S.COOLING: _TROUBLE | {_S.READY},
    _S.OFFLINE: _TROUBLE | {_S.READY},
    _S.QUARANTINED: frozenset({_S.READY, _S.QUARANTINED, _S.UNAUTHORIZED, _S.HOST_KEY_CHANGED}),
    _S.UNAUTHORIZED: frozenset({_S.READY, _S.QUARANTINED, _S.UNAUTHORIZED, _S.HOST_KEY_CHANGED}),
    _S.HOST_KEY_CHANGED: frozenset(),
    _S.HELD: frozenset(),
}
BY_PERSON: dict[DeviceState, frozenset[DeviceState]] = {
    state: frozenset({_S.HELD} if state is _S.READY else {_S.HELD, _S.READY}) for state in _S
}


@dataclass(frozen=True, kw_only=True)
class DeviceRecord:
    """The state of a device: who set it, why, since when, until when. Times are UTC seconds since 1970.

    ``failures``: infrastructure failures in a row. ``not_before``: it is not leased earlier. ``probed``: when it last
    passed a probe. ``beneath``: of a held device, what it is apart from that hold (None: ready).
    """

    name: str
    state: DeviceState = DeviceState.READY
    actor: str = MACHINE
    reason: str = ""
    since: float = 0.0
    until: float | None = None
    failures: int = 0
    not_before: float = 0.0
    probed: float | None = None
    beneath: DeviceRecord | None = None

    def at(self, now: float) -> DeviceRecord:
        """The record as it is at ``now``: a hold whose time is over gives back what it lay upon."""
        if self.state is not _S.HELD or self.until is None or self.until > now:
            return self
        below = self.below.at(now)
        if below.state is not _S.READY:
            return below
        return replace(below, reason="the hold ended", since=max(below.since, self.until))

    @property
    def below(self) -> DeviceRecord:
        """What lies directly beneath a hold."""
        return self.beneath or DeviceRecord(name=self.name)

    @property
    def apart_from_holds(self) -> DeviceRecord:
        """The record beneath all holds; itself when nobody holds the device."""
        return self.below.apart_from_holds if self.state is _S.HELD else self

    def without_hold_of(self, actor: str) -> DeviceRecord:
        """The record as it would be had ``actor`` not held the device."""
        if self.state is not _S.HELD:
            return self
        below = self.below.without_hold_of(actor)
        return below if self.actor == actor else replace(self, beneath=below)

    def leasable(self, now: float) -> bool:
        """True when a job may take it at ``now``, be it as its probe."""
        return self.state is _S.READY or (self.state not in WAITS_FOR_A_PERSON and self.not_before <= now)

    def hopeless(self, now: float) -> bool:
        """True when no job should wait for it: a person has to act, or the next probe is still to come."""
        return self.state in WAITS_FOR_A_PERSON or (self.state in NEEDS_PROOF and self.not_before > now)


def allowed(before: DeviceState, after: DeviceState, actor: str) -> bool:
    """True when ``actor`` (``machine`` or ``person:NAME``) may turn ``before`` into ``after``."""
    table = BY_PERSON if actor.startswith(PERSON) else BY_MACHINE
    return after in table[before]
