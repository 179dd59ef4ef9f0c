"""The worker host as a child of this command: it ends with it, however this command ends."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import func
from sqlalchemy import select as sql_select

from engine.contract.errors import InfraError
from farm.broker import URL_VARIABLE as BROKER_VARIABLE
from farm.store.database import Store
from farm.store.models import AttemptRow, JobRow, RunRow
from farm.store.urls import URL_VARIABLE as STORE_VARIABLE

DEFAULT_EXECUTOR = "farm.execution:execute_job"
READY_SECONDS = 60.0
UNWIND_SECONDS = 3.0
MAX_RESTARTS = 3
KEPT_LOGS = 20


class Workers:
    """Starts ``python -m farm.worker`` on entry and ends it on exit.

    The host holds the reading end of a pipe; this process the only writing end. When this process is gone, the
    pipe ends, and the host kills its slots with all that runs below them.
    """

    def __init__(self, *, broker: str, store: Store, queue: str, executor: str, slots: int, log: Path) -> None:
        self.slots = slots
        self._broker = broker
        self._store = store
        self._queue = queue
        self._executor = executor
        self._log = log
        self._host: subprocess.Popen[bytes] | None = None
        self._fate = self._ready = -1
        self._restarts = 0

    def __enter__(self) -> Workers:
        self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in sorted(self._log.parent.glob("*.log"), key=_age)[KEPT_LOGS:]:
            old.unlink(missing_ok=True)
        self._spawn()
        return self

    def __exit__(self, *_: object) -> None:
        if self._host is None:
            return
        end = time.monotonic() + UNWIND_SECONDS
        while self._running_jobs() and time.monotonic() < end:
            time.sleep(0.05)  # a cancelled job notices at its next guard, and cleans up behind itself
        self._close_pipes()
        self._host.wait()
        self._host = None

    def wait_ready(self) -> None:
        """Return once a slot takes jobs; ``InfraError`` with the last words of the log when none does."""
        end = time.monotonic() + READY_SECONDS
        while not select.select([self._ready], [], [], 0.1)[0]:
            self.check()
            if time.monotonic() > end:
                raise self._broken("did not come up")

    def check(self) -> None:
        """Start the host again if it was killed; ``InfraError`` when that does not help."""
        if self._host is None or self._host.poll() is None:
            return
        if self._host.returncode > 0 or self._restarts >= MAX_RESTARTS:
            raise self._broken(f"ended with code {self._host.returncode}")
        self._restarts += 1
        self._close_pipes()
        self._spawn()

    def _spawn(self) -> None:
        fate_read, self._fate = os.pipe()
        self._ready, ready_write = os.pipe()
        command = [sys.executable, "-m", "farm.worker", "--executor", self._executor]
        command += ["--queue", self._queue, "--concurrency", str(self.slots)]
        command += ["--fate-fd", str(fate_read), "--ready-fd", str(ready_write)]
        # In the environment, not in the arguments: URLs hold passwords, and arguments are for all to see
        environment = os.environ | {BROKER_VARIABLE: self._broker, STORE_VARIABLE: self._store.url}
        for variable in (BROKER_VARIABLE, STORE_VARIABLE):
            environment.pop(f"{variable}_FILE", None)  # read already
        with self._log.open("ab") as log:
            self._host = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=(fate_read, ready_write),
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        os.close(fate_read)
        os.close(ready_write)

    def _close_pipes(self) -> None:
        for fd in (self._fate, self._ready):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._fate = self._ready = -1

    def _running_jobs(self) -> int:
        """How many attempts of this session have not come to an end in their worker."""
        query = (
            sql_select(func.count())
            .select_from(JobRow)
            .join(RunRow, RunRow.id == JobRow.run_id)
            .join(AttemptRow, AttemptRow.job_id == JobRow.id)
            .where(RunRow.driver == self._queue, AttemptRow.ended.is_(None))
        )
        with self._store.read() as session:
            return session.execute(query).scalar_one()

    def _broken(self, what: str) -> InfraError:
        words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        return InfraError(
            f"the workers {what}: {' '.join(words) or 'no word from them'}",
            hint=f"{self._log} has more",
            log=str(self._log),
        )


def _age(path: Path) -> float:
    with contextlib.suppress(OSError):
        return -path.stat().st_mtime
    return 0.0
