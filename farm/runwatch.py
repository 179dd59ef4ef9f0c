"""Follows a run that somebody else drives, from the store alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from farm.jobs import RunUpdate, RunView
from farm.progress import RunProgress, duration
from farm.store.database import Store
from farm.store.jobs import RUN_STALE_SECONDS, fingerprint, jobs_of
from farm.store.runs import LIVING, find_run, list_runs

POLL_SECONDS = 0.3


def watch_run(store: Store, run: RunView, say: Callable[[str], None], show: RunProgress | None = None) -> RunView:
    """Show ``run`` until it has ended; returns it as it is then. A sweep is followed through all its runs."""
    seen: tuple[object, ...] | None = None
    warned = False
    with show or RunProgress(clock=store.clock) as progress:
        while True:
            now = find_run(store, run.id)
            part = _part(store, now)
            state = (part.id, *fingerprint(store, part.id))
            if state != seen:
                seen = state
                progress(RunUpdate(run_id=part.id, jobs=jobs_of(store, part.id, documents=False)))
            if now.status not in LIVING:
                return now
            silent = store.clock() - now.seen
            if silent > RUN_STALE_SECONDS and not warned:
                say(f"the command that drives {_name(now)} gave no sign of life for {duration(silent)}")
            warned = silent > RUN_STALE_SECONDS
            time.sleep(POLL_SECONDS)


def _name(run: RunView) -> str:
    return f"sweep {run.id}" if run.sweep == run.id else f"run {run.id}"


def _part(store: Store, run: RunView) -> RunView:
    """The run to show: of a sweep the newest one."""
    if run.sweep != run.id:
        return run
    parts = [part for part in list_runs(store, sweep=run.id) if part.id != run.id]
    return parts[0] if parts else run
