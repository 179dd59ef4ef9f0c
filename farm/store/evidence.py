"""What the store holds of past runs, how large it is, and which files it names; and how to delete it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, select

from farm.jobs import JobStatus
from farm.store.database import Store
from farm.store.models import AttemptRow, DeviceEventRow, JobRow, RunRow
from farm.store.runs import LIVING, is_driven

ROW_BYTES = 200
"""What a row takes beside its documents, about."""
FOREVER = float("inf")


@dataclass
class RunEvidence:
    """One run: when it was last seen, whether anything of it failed, and the bytes of its rows.

    ``part_of`` is the sweep that it belongs to, or the run that it confirms: one does not go without the other.
    ``active``: a command drives it at this moment; ``living``: it, or the sweep it is a part of, is not over.
    ``files`` are the paths its jobs name; ``blobs`` the digests of tensors that its results name.
    """

    id: str
    part_of: str | None
    active: bool
    living: bool
    failing: bool
    last: float
    size: int = ROW_BYTES
    files: dict[Path, float] = field(default_factory=dict)
    blobs: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Evidence:
    """All runs of the store by id."""

    runs: Mapping[str, RunEvidence]

    @property
    def anyone_active(self) -> bool:
        """True while a run is driven: its jobs use the cache."""
        return any(run.active for run in self.runs.values())

    def uses(self, cache: Path, without: Collection[str]) -> dict[Path, float]:
        """When each entry of the cache was last used by a run that stays; for ever when that run still needs it."""
        going = set(without)
        found: dict[Path, float] = {}
        for run in self.runs.values():
            if run.id in going:
                continue
            for path, moment in run.files.items():
                entry = _entry(path, cache)
                if entry is not None:
                    found[entry] = max(found.get(entry, 0.0), FOREVER if run.living else moment)
            for blob in run.blobs:
                found[cache / "blobs" / blob[:2] / blob] = FOREVER  # a result without its tensors is half a result
        return found


def read_evidence(store: Store) -> Evidence:
    """Look at every run and job of the store."""
    runs: dict[str, RunEvidence] = {}
    with store.read() as session:
        open_sweeps = set(session.scalars(select(RunRow.id).where(RunRow.status == "open")))
        for row in session.scalars(select(RunRow)):
            living = row.status in LIVING or row.sweep in open_sweeps
            active = is_driven(row, store.clock())
            failing = row.payload.get("exit_code", 0) != 0
            part_of = row.sweep or row.payload.get("confirms")
            runs[row.id] = RunEvidence(row.id, part_of, active, living, failing, row.finished or row.seen)
        for job in session.scalars(select(JobRow).execution_options(yield_per=50)):
            run = runs[job.run_id]
            run.failing |= job.status == JobStatus.FAILED
            run.files.update((path, max(job.created, run.files.get(path, 0.0))) for path in _files(job.spec))
            run.blobs.update(_blobs(job.result))
        sizes = select(JobRow.run_id, func.count(), *(func.sum(func.length(c)) for c in _DOCUMENTS))
        for run_id, count, *lengths in session.execute(sizes.group_by(JobRow.run_id)):
            runs[run_id].size += count * 2 * ROW_BYTES + sum(length or 0 for length in lengths)
    return Evidence(runs)


_DOCUMENTS = tuple(JobRow.__table__.c[name] for name in ("spec", "result", "error"))


def delete_run(store: Store, run_id: str) -> None:
    """Delete an ended run with its jobs, their results and their attempts: all of it or nothing."""
    jobs = select(JobRow.id).where(JobRow.run_id == run_id)
    with store.write() as session:
        ended = session.scalar(select(RunRow.id).where(RunRow.id == run_id, RunRow.status.not_in(LIVING)))
        if ended is None:
            return  # somebody goes on with it meanwhile
        session.execute(delete(AttemptRow).where(AttemptRow.job_id.in_(jobs)))
        session.execute(delete(JobRow).where(JobRow.run_id == run_id))
        session.execute(delete(RunRow).where(RunRow.id == run_id))


def old_events(store: Store, before: float) -> tuple[int, int, float]:
    """How many events of devices are older than ``before``, their bytes, and the time of the newest of them."""
    query = select(func.count(), func.sum(func.length(DeviceEventRow.reason)), func.max(DeviceEventRow.at))
    with store.read() as session:
        count, reasons, last = session.execute(query.where(DeviceEventRow.at < before)).one()
    return count, count * ROW_BYTES + (reasons or 0), last or 0.0


def delete_events(store: Store, before: float) -> None:
    """Delete the events of devices older than ``before``."""
    with store.write() as session:
        session.execute(delete(DeviceEventRow).where(DeviceEventRow.at < before))


def _files(spec: Mapping[str, Any]) -> Iterator[Path]:
    """The host paths that a job names, wherever in its document; nothing else of it is trusted to be there."""
    for value in spec.values():
        yield from _paths(value)


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, str):
        if value.startswith("/"):
            yield Path(value)
    elif isinstance(value, dict):
        yield from _files(value)
    elif isinstance(value, list):
        for entry in value:
            yield from _paths(entry)


def _blobs(result: Mapping[str, Any] | None) -> Iterator[str]:
    outputs = (result or {}).get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        blob = output.get("blob") if isinstance(output, dict) else None
        if isinstance(blob, str) and blob:
            yield Path(blob).name


def _entry(path: Path, cache: Path) -> Path | None:
    """The entry of the cache that a path lies in: two levels below it, three where entries lie in groups."""
    if not path.is_relative_to(cache):
        return None
    parts = path.relative_to(cache).parts
    depth = 3 if parts and parts[0] in ("references", "blobs") else 2
    return cache.joinpath(*parts[:depth]) if len(parts) >= depth else None
