"""The tables. The job table is the truth: the broker only carries the ids of jobs.

All times are UTC seconds since 1970 (float). A change here needs a migration in ``migrations/versions``; a test
compares the two.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Dialect, Float, ForeignKey, Index, Integer, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
}


class Document(TypeDecorator[dict[str, Any]]):
    """A JSON document as text: measured values may be NaN or infinite, which databases' own JSON types refuse."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: dict[str, Any] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Python to text; None stays NULL."""
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, Any] | None:  # noqa: ARG002
        """Text to Python."""
        return None if value is None else json.loads(value)


def _clean(value: str) -> str:
    """Text that every database takes: PostgreSQL refuses NUL and half surrogate pairs."""
    return value.replace("\0", "\ufffd").encode(errors="replace").decode()


class Words(TypeDecorator[str]):
    """Text from outside: command lines, reasons, what devices say."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Cleaned; None stays NULL."""
        return None if value is None else _clean(value)


class Line(TypeDecorator[str]):
    """The same in a bounded column: of what is too long, as paths are, the end is kept. SQLite would keep it all."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Cleaned, and at most as many characters as the column has."""
        length = getattr(self.impl_instance, "length", None)
        return None if value is None else _clean(value)[-length if length else 0 :]


class Base(DeclarativeBase):
    """Root of the tables; constraints have names, so that any database can migrate them."""

    metadata = MetaData(naming_convention=NAMES)


class RunRow(Base):
    """One gate or sweep. ``driver`` names the session that drives it, ``seen`` is that controller's heartbeat.

    A sweep is driven from a place (``farm/driving.py``).
    ``priority``: smaller goes first. ``owner``: who asked for it. ``sweep``: the sweep that the run is a part of.
    """

    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    suite: Mapped[str] = mapped_column(Line(255))
    engine: Mapped[str] = mapped_column(Line(255))
    command: Mapped[str] = mapped_column(Words)
    status: Mapped[str] = mapped_column(String(16))
    driver: Mapped[str] = mapped_column(String(64))
    created: Mapped[float] = mapped_column(Float(53))
    seen: Mapped[float] = mapped_column(Float(53))
    finished: Mapped[float | None] = mapped_column(Float(53))
    payload: Mapped[dict[str, Any]] = mapped_column(Document)
    kind: Mapped[str] = mapped_column(String(16), server_default="gate")
    priority: Mapped[int] = mapped_column(Integer, server_default="5")
    owner: Mapped[str] = mapped_column(Line(255), server_default="")
    sweep: Mapped[str | None] = mapped_column(String(64), index=True)


class JobRow(Base):
    """One case on one device at one engine version. ``dispatched``: a message with its id was sent then.

    ``queue``: the queue of the host that reaches the device (empty: the run's own). ``content``: what was run on
    what, as a digest: two jobs with the same one need not both run.
    """

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "run_id", "status"), Index(None, "device", "status"))

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    device: Mapped[str] = mapped_column(String(255))
    case: Mapped[str] = mapped_column(String(255))
    role: Mapped[str] = mapped_column(String(16))
    position: Mapped[int] = mapped_column(Integer)
    cost: Mapped[float] = mapped_column(Float(53))
    timeout: Mapped[float] = mapped_column(Float(53))
    status: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int] = mapped_column(Integer)
    not_before: Mapped[float] = mapped_column(Float(53))
    dispatched: Mapped[float | None] = mapped_column(Float(53))
    created: Mapped[float] = mapped_column(Float(53))
    started: Mapped[float | None] = mapped_column(Float(53))
    finished: Mapped[float | None] = mapped_column(Float(53))
    spec: Mapped[dict[str, Any]] = mapped_column(Document)
    result: Mapped[dict[str, Any] | None] = mapped_column(Document)
    error: Mapped[dict[str, Any] | None] = mapped_column(Document)
    queue: Mapped[str] = mapped_column(String(64), server_default="")
    content: Mapped[str] = mapped_column(String(64), server_default="")


class AttemptRow(Base):
    """One attempt at a job under one lease; kept as long as its job. ``device`` is the unit it ran on."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    token: Mapped[int] = mapped_column(Integer)
    worker: Mapped[str] = mapped_column(Line(255))
    started: Mapped[float] = mapped_column(Float(53))
    ended: Mapped[float | None] = mapped_column(Float(53))
    outcome: Mapped[str] = mapped_column(String(16))
    error: Mapped[dict[str, Any] | None] = mapped_column(Document)
    device: Mapped[str] = mapped_column(String(255), server_default="")


class LeaseRow(Base):
    """Who has a device. ``token`` only grows; ``holder`` is empty when the device is free."""

    __tablename__ = "leases"

    device: Mapped[str] = mapped_column(String(255), primary_key=True)
    token: Mapped[int] = mapped_column(Integer)
    holder: Mapped[str] = mapped_column(String(255))
    expires: Mapped[float] = mapped_column(Float(53))


class WorkerRow(Base):
    """A worker host that serves a queue: who, how many slots take messages, and when it was last seen."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    queue: Mapped[str] = mapped_column(String(64), index=True)
    slots: Mapped[int] = mapped_column(Integer)
    owner: Mapped[str] = mapped_column(Line(255))
    started: Mapped[float] = mapped_column(Float(53))
    seen: Mapped[float] = mapped_column(Float(53))


class DeviceRow(Base):
    """The state of a device and who set it, why and since when. Without a row a device is ``ready``.

    ``until``: when the state ends by itself. ``failures``: infrastructure failures in a row. ``not_before``: the
    device is not leased earlier. ``probed``: when it last passed a health probe. ``beneath``: of a held device, the
    state that the hold lies upon.
    """

    __tablename__ = "devices"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    actor: Mapped[str] = mapped_column(Line(255))
    reason: Mapped[str] = mapped_column(Words)
    since: Mapped[float] = mapped_column(Float(53))
    until: Mapped[float | None] = mapped_column(Float(53))
    failures: Mapped[int] = mapped_column(Integer)
    not_before: Mapped[float] = mapped_column(Float(53))
    probed: Mapped[float | None] = mapped_column(Float(53))
    facts: Mapped[dict[str, Any] | None] = mapped_column(Document)
    beneath: Mapped[dict[str, Any] | None] = mapped_column(Document)


class DeviceEventRow(Base):
    """One thing that happened to a device: a change of state, an attempt that failed or passed; never changed."""

    __tablename__ = "device_events"
    __table_args__ = (Index(None, "device", "at"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    device: Mapped[str] = mapped_column(String(255))
    at: Mapped[float] = mapped_column(Float(53))
    kind: Mapped[str] = mapped_column(String(16))
    before: Mapped[str] = mapped_column(String(16))
    after: Mapped[str] = mapped_column(String(16))
    actor: Mapped[str] = mapped_column(Line(255))
    reason: Mapped[str] = mapped_column(Words)
