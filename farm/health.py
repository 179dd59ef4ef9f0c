"""When a device is left alone, quarantined and tried again: pure decisions over its record and its last attempts.

A circuit breaker for each device. One that fails is left alone for a while that doubles with each failure in a row;
one that fails too often of late is quarantined, and then a single job is let through as its probe. Nothing here
waits: other devices go on.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, model_validator

from engine.contract.errors import (
    AdbServerReplaced,
    BrokerError,
    DeviceHeld,
    DeviceQuarantined,
    DeviceUnauthorized,
    DeviceUnavailable,
    HostKeyChanged,
    InfraError,
    LeaseLost,
    LockstepError,
    StorageFull,
    StoreError,
)
from farm.config import Strict
from farm.devicestates import MACHINE, NEEDS_PROOF, WAITS_FOR_A_PERSON, DeviceRecord, DeviceState
from farm.jobs import JobError

TIMED_OUT = "JobTimeout"
REASON_CHARACTERS = 500


class Health(Strict):
    """``health:`` of the devices file: how patient the farm is with a device that fails.

    Quarantined after ``failures`` infrastructure failures in its last ``of`` attempts. After a failure it is left
    alone for ``backoff_seconds``, twice that after the next, at most ``backoff_most_seconds``; a quarantined one is
    probed after ``probe_after_seconds``, then after twice that, at most ``probe_most_seconds``.
    """

    failures: int = Field(default=2, ge=1, le=100)
    of: int = Field(default=5, ge=1, le=100)
    backoff_seconds: float = Field(default=4.0, ge=0, le=3600)
    backoff_most_seconds: float = Field(default=60.0, ge=0, le=86400)
    probe_after_seconds: float = Field(default=60.0, ge=0, le=86400)
    probe_most_seconds: float = Field(default=3600.0, ge=0, le=604800)

    @model_validator(mode="after")
    def _window_holds_them(self) -> Health:
        if self.failures > self.of:
            raise ValueError(f"{self.failures} failures cannot be among the last {self.of} attempts")
        return self

    @classmethod
    def of_run(cls, payload: Mapping[str, Any]) -> Health:
        """What the run was planned with; the defaults where it says nothing."""
        return cls.model_validate(payload.get("health") or {})


def plain(text: str) -> str:
    """A reason as it is kept: bounded and printable, for part of it may come from a device."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:REASON_CHARACTERS])


def names_of(kind: type[LockstepError]) -> set[str]:
    """The names of an error and of all kinds of it that are known by now."""
    return {kind.__name__}.union(*(names_of(child) for child in kind.__subclasses__()))


def blames_device(error: JobError) -> bool:
    """True when the error says something against the device, not the engine, a worker, the host or the broker."""
    if error.type == TIMED_OUT:
        return True
    if error.type in names_of(StorageFull):  # without a device it is the host that has no room
        return "device" in error.fields
    return error.type in names_of(InfraError) and not any(
        error.type in names_of(other) for other in (LeaseLost, AdbServerReplaced, BrokerError, StoreError)
    )


def clears_device(error: JobError) -> bool:
    """True when the job failed on a device that proved sound: the engine is told apart by probing the device again."""
    return error.status in ("crashed", "unsupported")


def after_failure(
    record: DeviceRecord, error: JobError, failed: Sequence[bool], now: float, health: Health
) -> DeviceRecord:
    """The record after a failure. ``failed``: which of its last attempts failed, newest (this one) first."""
    if record.state is DeviceState.HELD:
        return replace(record, beneath=after_failure(record.below, error, failed, now, health))
    failures = record.failures + 1
    state = _state(record, error, sum(failed[: health.of]), health)
    if record.state in WAITS_FOR_A_PERSON:
        return replace(record, failures=failures)
    if state in NEEDS_PROOF:
        exponent = max(0, failures - health.failures)
        pause = _pause(record.name, exponent, health.probe_after_seconds, health.probe_most_seconds)
    elif state is DeviceState.HOST_KEY_CHANGED:
        pause = 0.0
    else:
        pause = _pause(record.name, failures - 1, health.backoff_seconds, health.backoff_most_seconds)
    return replace(
        record,
        state=state,
        actor=MACHINE,
        reason=plain(error.message),
        since=record.since if state is record.state else now,
        until=now + pause if state is DeviceState.COOLING else None,
        failures=failures,
        not_before=now + pause,
    )


def after_pass(record: DeviceRecord, now: float, reason: str) -> DeviceRecord:
    """The record after a passed probe: ready, unless a person has to say so."""
    if record.state is DeviceState.HELD:
        return replace(record, probed=now, beneath=after_pass(record.below, now, reason))
    if record.state in WAITS_FOR_A_PERSON:
        return replace(record, failures=0, probed=now)
    if record.state is DeviceState.READY:
        return replace(record, failures=0, not_before=0.0, probed=now)
    return DeviceRecord(name=record.name, reason=reason, since=now, probed=now)


def refusal(record: DeviceRecord, when: str) -> DeviceUnavailable:
    """Why a job cannot have the device, and what to do. ``when``: since when, in words."""
    who = "the farm" if record.actor == MACHINE else record.actor.removeprefix("person:")
    words = f"{record.name} is {record.state} since {when}, set by {who}: {record.reason or 'no reason given'}"
    kind, hint = _REFUSALS.get(record.state, (DeviceUnavailable, "`lockstep devices --probe` tries it now"))
    return kind(words, hint=hint.format(name=record.name), device=record.name, state=str(record.state))


_REFUSALS: dict[DeviceState, tuple[type[DeviceUnavailable], str]] = {
    DeviceState.HELD: (DeviceHeld, "ask them, or `lockstep devices release {name}`"),
    DeviceState.QUARANTINED: (DeviceQuarantined, "mend it, then `lockstep devices --probe` tries it at once"),
    DeviceState.UNAUTHORIZED: (DeviceUnauthorized, "let us in on the device, then `lockstep devices --probe`"),
    DeviceState.HOST_KEY_CHANGED: (
        HostKeyChanged,
        "check its new host key on the device itself, put it in known_hosts, then `lockstep devices release {name}`",
    ),
}


def _state(record: DeviceRecord, error: JobError, failures: int, health: Health) -> DeviceState:
    if error.type in names_of(HostKeyChanged):
        return DeviceState.HOST_KEY_CHANGED
    if error.type in names_of(DeviceUnauthorized):
        return DeviceState.UNAUTHORIZED
    if record.state in NEEDS_PROOF or failures >= health.failures:
        return DeviceState.QUARANTINED
    return DeviceState.OFFLINE if error.type in names_of(DeviceUnavailable) else DeviceState.COOLING


def _pause(name: str, exponent: int, first: float, most: float) -> float:
    """Seconds: doubling, with up to a quarter more, so that devices that failed together do not come back together."""
    chance = random.Random(f"{name}:{exponent}").random()  # noqa: S311 - the same for the same device and failure
    return float(min(most, first * 2.0 ** min(exponent, 40)) * (1.0 + 0.25 * chance))
