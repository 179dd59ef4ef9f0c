"""Runs in a terminal of 80 columns: the list, and one run in full."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from farm.driving import place
from farm.jobs import JobStatus, JobView, RunView
from farm.progress import STYLES, duration
from farm.store import Store, attempts_of, jobs_of
from farm.store.runs import LIVING, list_runs

_STATUS_STYLES = {"running": "cyan", "open": "cyan", "done": "green", "cancelled": "yellow", "abandoned": "red"}
MOST_JOBS = 200


def runs_table(runs: list[RunView], now: float) -> str:
    """One line a run."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("run", no_wrap=True, min_width=22)
    for name in ("kind", "status"):
        table.add_column(name, no_wrap=True)
    table.add_column("jobs", justify="right", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("suite/engine", overflow="ellipsis", no_wrap=True, ratio=3)
    table.add_column("owner", overflow="ellipsis", no_wrap=True, ratio=2)
    for run in runs:
        status = Text(run.status, style=_STATUS_STYLES.get(run.status, ""))
        jobs = "" if run.sweep == run.id else f"{run.ended}/{run.total}"
        what = Text(f"{run.suite}/{run.engine}")
        table.add_row(run.id, Text(run.kind), status, jobs, duration(now - run.created), what, Text(run.owner))
    return _text(table)


def show_run(store: Store, run: RunView) -> str:
    """What one run was asked, how far it is, each of its jobs with its attempts, and where its report lies."""
    console = Console(highlight=False)
    jobs = jobs_of(store, run.id, documents=False)
    with console.capture() as capture:
        for name, value in _facts(store, run):
            console.print(Text(f"{name:9} ", style="bold") + Text(value), soft_wrap=True)  # paths stay whole
        if jobs:
            console.print()
            console.print(_jobs(jobs[:MOST_JOBS], console.width))
        if len(jobs) > MOST_JOBS:
            console.print(f"… and {len(jobs) - MOST_JOBS} more")
        if run.sweep == run.id:
            parts = [part for part in list_runs(store, sweep=run.id) if part.id != run.id]
            console.print(Text(f"\n{len(parts)} runs of this sweep", style="bold"))
            for part in parts:
                console.print(Text(f"  {part.id}  {part.status}, {part.ended} of {part.total} jobs ended"))
        for job in jobs:
            _attempts(console, store, job)
    return capture.get().rstrip("\n")


def _facts(store: Store, run: RunView) -> list[tuple[str, str]]:
    facts = [
        ("run", run.id),
        ("kind", f"{run.kind}{_part_of(run)}, priority {run.priority}"),
        ("owner", run.owner or "unknown"),
        ("command", run.command),
        ("tests", f"{run.engine} on {run.suite}"),
        ("begun", _moment(run.created)),
        ("status", _status(run, store.clock())),
    ]
    again = run.payload.get("confirmed_by")
    if again:
        facts.append(("confirmed", f"by {', '.join(again)}"))
    told = run.payload.get("cancelled")
    if told:
        facts.append(("cancelled", f"by {told['by']} {_moment(told['at'])}: {told['reason']}"))
    facts.append(("report", str(run.payload.get("report") or "none was written")))
    return facts


def _part_of(run: RunView) -> str:
    confirms = run.payload.get("confirms")
    return f" of {confirms}" if confirms else f" of sweep {run.sweep}" if run.sweep else ""


def _status(run: RunView, now: float) -> str:
    """In which state a run is, and whether something still drives it."""
    sweep = run.sweep == run.id
    words = run.status if sweep else f"{run.status}, {run.ended} of {run.total} jobs ended"
    if run.status not in LIVING:
        return words
    if sweep and not run.driver:
        return f"{words}; nobody drives it: `lockstep sweep --resume {run.id[-6:]}` goes on"
    where = f"driven from {place(run.driver)}, " if sweep else ""
    return f"{words}; {where}last sign of life {duration(now - run.seen)} ago"


def _jobs(jobs: tuple[JobView, ...], width: int) -> Table:
    """Names are shortened to ``width``, never what became of the jobs."""
    heads = ("device", "case", "role", "status", "tries", "seconds")
    rows = [(job.device, job.case, job.role, job.status, str(job.attempts), _seconds(job)) for job in jobs]
    device, case, *others = (max(map(cell_len, column)) for column in zip(heads, *rows, strict=True))
    room = width - sum(others) - 2 * (len(heads) - 1)  # two blanks between columns
    device = min(device, max(room // 2, room - case))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, most in zip(heads, (device, room - device, *others), strict=True):
        right = name in ("tries", "seconds")
        table.add_column(
            name, justify="right" if right else "left", overflow="ellipsis", no_wrap=True, max_width=max(most, 1)
        )
    for *names, role, status, tries, seconds in rows:
        table.add_row(*map(Text, names), role, Text(status, style=STYLES[status]), tries, seconds)
    return table


def _seconds(job: JobView) -> str:
    return "" if job.started is None or job.finished is None else f"{job.finished - job.started:.1f}"


def _attempts(console: Console, store: Store, job: JobView) -> None:
    """The attempts of a job that did not simply pass."""
    if job.attempts <= 1 and job.error is None:
        return
    console.print(Text(f"\n{job.case} on {job.device} ({job.role})", style="bold"))
    for attempt in attempts_of(store, job.id):
        reason = f": {attempt.error.message}" if attempt.error else ""
        unit = f" on {attempt.device}" if attempt.device and attempt.device != job.device else ""
        console.print(Text(f"  attempt {attempt.number} by {attempt.worker}{unit}: {attempt.outcome}{reason}"))
    if job.error and job.status in (JobStatus.FAILED, JobStatus.CANCELLED):
        console.print(Text(f"  {job.error.type}: {job.error.message}"))
        if job.error.hint:
            console.print(Text(f"  next: {job.error.hint}", style="dim"))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _text(table: Table) -> str:
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip("\n")
