"""Shows a run as it goes: a live table in a terminal, one line for each job that ended elsewhere."""

from __future__ import annotations

from collections import defaultdict
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


class RunProgress:
    """``with RunProgress(console) as show: farm.run(run_id, on_update=show)``."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._told: set[str] = set()

    def __enter__(self) -> RunProgress:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, update: RunUpdate) -> None:
        """Show the present state of the run."""
        if self._live is not None:
            self._live.update(_picture(update))
            return
        for job in update.jobs:
            if job.status.ended and job.id not in self._told:
                self._told.add(job.id)
                self._console.print(_line(job, len(self._told), len(update.jobs)), highlight=False, soft_wrap=True)


def _line(job: JobView, number: int, total: int) -> Text:
    seconds = "" if job.started is None or job.finished is None else f" {job.finished - job.started:.1f} s"
    reason = f": {job.error.message}" if job.error else ""
    return Text(f"[{number}/{total}] {job.device} {job.case} ({job.role}) {job.status}{seconds}{reason}")


def _picture(update: RunUpdate) -> RenderableType:
    devices: dict[str, list[JobView]] = defaultdict(list)
    for job in update.jobs:
        devices[job.device].append(job)
    table = Table("device", "progress", "", "now", box=None, pad_edge=False)
    for device, jobs in devices.items():
        ended = sum(job.status.ended for job in jobs)
        failed = sum(job.status == JobStatus.FAILED for job in jobs)
        running = next((job for job in jobs if job.status == JobStatus.RUNNING), None)
        now = Text(f"{running.case} ({running.role})" if running else "", style=STYLES[JobStatus.RUNNING])
        if failed:
            now.append(f"  {failed} failed", style=STYLES[JobStatus.FAILED])
        table.add_row(Text(device), ProgressBar(len(jobs), ended, width=20), f"{ended}/{len(jobs)}", now)
    words = ", ".join(f"{count} {status}" for status, count in sorted(update.counts.items()))
    return Group(table, Text(f"{update.ended} of {len(update.jobs)} jobs ended ({words})", style="dim"))
