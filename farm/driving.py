"""Who drives a sweep: one command at a time on a host, and one of all hosts that share a store.

On a host a lock says so, which the kernel drops however its holder ends. Between hosts the sweep's row does:
``driver`` names the place that drives it (empty: nobody), and ``seen`` is its last sign of life.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import update
from sqlalchemy.orm import Session

from engine.contract.errors import InfraError, StoreError
from farm.jobs import RunView
from farm.progress import duration
from farm.store import Store
from farm.store.jobs import RUN_STALE_SECONDS
from farm.store.models import RunRow
from farm.store.runs import check_cancelled, is_driven
from farm.ticking import ticking

BEAT_SECONDS = 3.0
log = logging.getLogger("lockstep.sweep")


@contextmanager
def alone(state: Path) -> Iterator[str]:
    """Hold the right to sweep on this host; gives the name of this place, ``HOST/ID``. Ends with the process.

    ``InfraError`` while another process has it. Who drove a sweep from this place before is known to be dead.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / "sweep.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise InfraError(
                f"a sweep is running already (process {lock.readline().split(' ')[0].strip() or 'unknown'})",
                hint="`lockstep runs watch` follows it; `lockstep runs cancel ID --reason TEXT` ends it",
            ) from error
        lock.seek(0)
        place = lock.readline().strip().partition(" ")[2] or secrets.token_hex(6)
        lock.truncate(0)
        lock.write(f"{os.getpid()} {place}\n")
        lock.flush()
        yield f"{socket.gethostname()[:48]}/{place}"


@contextmanager
def driving(store: Store, sweep: RunView) -> Iterator[None]:
    """Give signs of life for ``sweep``, which ``sweep.driver`` drives; when the block is left nobody drives it."""

    def beat() -> bool:
        _touch(store, sweep, sweep.driver)
        return True

    try:
        with ticking("sweep-beat", BEAT_SECONDS, beat):
            yield
    finally:
        _touch(store, sweep, "")


def _touch(store: Store, sweep: RunView, driver: str) -> None:
    still_ours = update(RunRow).where(RunRow.id == sweep.id, RunRow.driver == sweep.driver, RunRow.status == "open")
    try:
        with store.write() as session:
            session.execute(still_ours.values(seen=store.clock(), driver=driver))
    except StoreError as error:  # whoever drives the jobs finds out for itself
        log.warning("sweep=%s not seen by others for a while: %s", sweep.id, error.message)


def take(row: RunRow, driver: str, now: float) -> None:
    """Drive the sweep of ``row`` from now on; ``InfraError`` while another place does."""
    if is_driven(row, now) and row.driver != driver:
        raise InfraError(
            f"sweep {row.id} is driven from {place(row.driver)}, seen {duration(now - row.seen)} ago",
            hint=f"`lockstep runs watch {row.id}` follows it; if what drives it there is dead, "
            f"`lockstep sweep --resume {row.id}` can go on {RUN_STALE_SECONDS:.0f} s after its last sign of life",
        )
    row.status, row.driver, row.seen, row.finished = "open", driver, now, None


def place(driver: str) -> str:
    """The host in the name of a driver."""
    return driver.rpartition("/")[0]


def ours(session: Session, sweep: RunView) -> RunRow:
    """The row of a sweep, locked, that ``sweep.driver`` still drives; ``InfraError`` when it does not any more."""
    row = session.get_one(RunRow, sweep.id, with_for_update=True)
    if row.driver != sweep.driver:
        now = f"{place(row.driver)} goes on with it" if row.driver else f"it is {row.status}, and nobody drives it"
        raise InfraError(
            f"sweep {sweep.id} is not driven from here any more: this command gave no sign of life for long, and {now}",
            hint=f"`lockstep runs show {sweep.id}` says how far it is; `lockstep sweep --resume {sweep.id}` goes on",
        )
    return row


def check_driving(store: Store, sweep: RunView) -> None:
    """Raise ``RunCancelled`` when somebody ended the sweep, ``InfraError`` when somebody else drives it."""
    check_cancelled(store, sweep.id)
    with store.read() as session:
        ours(session, sweep)
