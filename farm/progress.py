"""Shows a run as it goes: a live table in a terminal, one line for each job that ended elsewhere.

Everything shown comes from the job table, so that whoever can read the store can watch a run.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from farm.jobs import JobStatus, JobView, RunUpdate

STYLES = {
    JobStatus.QUEUED: "dim",
    JobStatus.RUNNING: "cyan",
    JobStatus.DONE: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "yellow",
}
REFRESH_PER_SECOND = 4


@dataclass(frozen=True)
class Estimate:
    """Seconds until a run and each of its devices have ended; None while nothing is known."""

    run: float | None
    devices: Mapping[str, float | None]


def estimate(jobs: Sequence[JobView], now: float) -> Estimate:
    """What the planned costs and the jobs that have ended say about the rest.

    A job is taken to need its cost times the mean ratio of seconds to cost among the ended ones. A device works
    alone on its own; the run is as long as its slowest device, or as all the work at the parallelism seen so far.
    """
    done = [job for job in jobs if job.status == JobStatus.DONE]
    cost = sum(job.cost for job in done)
    spent = sum(_seconds(job) for job in done)
    if not cost:
        return Estimate(None, dict.fromkeys((job.device for job in jobs), None))
    ratio = spent / cost
    left = dict.fromkeys((job.device for job in jobs), 0.0)
    for job in jobs:
        running = now - job.started if job.status == JobStatus.RUNNING and job.started is not None else 0.0
        spent += running
        if not job.status.ended:
            left[job.device] += max(0.0, job.cost * ratio - running)
    begun = min(job.started for job in jobs if job.started is not None)
    at_a_time = max(1.0, spent / max(now - begun, 1e-9))
    return Estimate(max(*left.values(), sum(left.values()) / at_a_time), dict(left))


class RunProgress:
    """``with RunProgress(console) as show: farm.run(run_id, on_update=show)``."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.time) -> None:
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._live: Live | None = None
        self._told: set[str] = set()
        self._notes: set[str] = set()
        self._update: RunUpdate | None = None

    def __enter__(self) -> RunProgress:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                transient=True,
                refresh_per_second=REFRESH_PER_SECOND,
                get_renderable=self._picture,  # asked at each refresh: the seconds go on between two updates
            )
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, update: RunUpdate) -> None:
        """Show the present state of the run."""
        self._update = update
        if self._live is not None:
            self._live.refresh()
            return
        for note in set(update.notes) - self._notes:
            self._console.print(Text(f"waiting: {note}"), soft_wrap=True)
        self._notes = set(update.notes)
        for job in update.jobs:
            if job.status.ended and job.id not in self._told:
                self._told.add(job.id)
                self._console.print(_line(job, len(self._told), len(update.jobs)), highlight=False, soft_wrap=True)

    def _picture(self) -> RenderableType:
        return Text("") if self._update is None else _picture(self._update, self._clock())


def duration(seconds: float | None) -> str:
    """Seconds as people say them, in at most six characters; nothing for None."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    if whole < 100 * 60:
        return f"{whole / 60:.0f} min"
    return f"{whole / 3600:.0f} h" if whole < 100 * 3600 else f"{whole / 86400:.0f} d"


def _seconds(job: JobView) -> float:
    return 0.0 if job.started is None or job.finished is None else job.finished - job.started


def _line(job: JobView, number: int, total: int) -> Text:
    seconds = "" if job.started is None or job.finished is None else f" {_seconds(job):.1f} s"
    reason = f": {job.error.message}" if job.error else ""
    return Text(f"[{number}/{total}] {job.device} {job.case} ({job.role}) {job.status}{seconds}{reason}")


def _picture(update: RunUpdate, now: float) -> RenderableType:
    devices: dict[str, list[JobView]] = defaultdict(list)
    for job in update.jobs:
        devices[job.device].append(job)
    left = estimate(update.jobs, now)
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("device", no_wrap=True, overflow="ellipsis", width=min(20, max(map(len, ["device", *devices]))))
    table.add_column("progress", width=12)
    table.add_column("", justify="right", no_wrap=True, width=2 * len(str(len(update.jobs))) + 1)
    table.add_column("left", justify="right", no_wrap=True, width=7)
    table.add_column("now", no_wrap=True, overflow="ellipsis", ratio=1)
    for device, jobs in devices.items():
        table.add_row(
            Text(device),
            ProgressBar(len(jobs), sum(job.status.ended for job in jobs), width=12),
            f"{sum(job.status.ended for job in jobs)}/{len(jobs)}",
            duration(left.devices[device]) if any(not job.status.ended for job in jobs) else "",
            _now(jobs, now),
        )
    words = ", ".join(f"{count} {status}" for status, count in sorted(update.counts.items()))
    begun = min((job.started for job in update.jobs if job.started is not None), default=now)
    times = f"; {duration(now - begun)} so far" + (f", about {duration(left.run)} left" if left.run else "")
    notes = [Text(f"waiting: {note}", style="yellow") for note in update.notes]
    return Group(table, *notes, Text(f"{update.ended} of {len(update.jobs)} jobs ended ({words}){times}", style="dim"))


def _now(jobs: Sequence[JobView], now: float) -> Text:
    running = next((job for job in jobs if job.status == JobStatus.RUNNING), None)
    text = Text(style=STYLES[JobStatus.RUNNING])
    failed = sum(job.status == JobStatus.FAILED for job in jobs)
    if failed:
        text.append(f"{failed} failed  ", style=STYLES[JobStatus.FAILED])
    if running is not None and running.started is not None:
        text.append(f"{duration(now - running.started)} {running.case} ({running.role})")
    return text
