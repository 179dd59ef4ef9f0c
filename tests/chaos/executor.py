"""What a worker of the chaos suite runs: the real executor, with places where it stops until the fault has struck.

Workers import this before they fork, so what is replaced here holds in every slot. Nothing is replaced but places to
stop, the clock, the length of the lease and of a silence, and one write or transfer that is to go wrong.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import OperationalError

from agents import apart, deployment
from agents.deployment import Blob
from farm import attempt, execution
from farm.runnercall import RunnerCall
from farm.store import job as job_of
from farm.store.database import Store

FOLDER = Path(os.environ["LOCKSTEP_CHAOS"])
LEASE_SECONDS = float(os.environ["LOCKSTEP_CHAOS_LEASE"])
#: The victim's deployment stops before this piece: some of it has arrived, some has not.
PIECE = 3

# In the parent of all slots: what a link needs is imported once, not by each of them
importlib.import_module(f"agents.{os.environ['LOCKSTEP_CHAOS_LINK']}")
if "LOCKSTEP_CHAOS_SILENCE" in os.environ:
    importlib.import_module("agents.adbpush").SILENCE_SECONDS = float(os.environ["LOCKSTEP_CHAOS_SILENCE"])


def execute(spec: dict[str, Any], guard: Callable[[], None]) -> dict[str, Any]:
    """The real thing, and which attempt it was."""
    answer = execution.execute_job(spec, guard)
    return answer | {"chaos_attempt": spec["attempt"]}


def consume(name: str) -> bool:
    """True for the one who takes the file ``name``."""
    try:
        (FOLDER / name).rename(FOLDER / f"{name}.taken")
    except FileNotFoundError:
        return False
    return True


def reach(moment: str, case: str) -> None:
    """Stop here if that was asked for, until the fault has struck."""
    if not consume(f"{moment}-{case}"):
        return
    held = FOLDER / f"{moment}-{case}.taken"
    part = FOLDER / ".reached"
    part.write_text(str(os.getpid()))
    part.rename(FOLDER / "reached")
    while held.exists():
        time.sleep(0.01)


def note(what: str, case: str, number: int) -> None:
    """One line that says where an attempt is; a short write to the end of a file is whole."""
    with (FOLDER / "attempts.jsonl").open("a") as log:
        log.write(json.dumps({"what": what, "case": case, "attempt": number}) + "\n")


def clock() -> float:
    """The wall clock, as wrong as the test says."""
    try:
        return time.time() + float((FOLDER / "clock").read_text())
    except (FileNotFoundError, ValueError):
        return time.time()


# -- the store: clock, moments before a claim, after it and before the result, one failing write ----------

_init = Store.__init__


def _with_chaos_clock(self: Store, *words: Any, **named: Any) -> None:
    _init(self, *words, **named)
    self.clock = clock


Store.__init__ = _with_chaos_clock  # type: ignore[method-assign]
assert attempt.run_job.__kwdefaults__ is not None
attempt.run_job.__kwdefaults__["ttl"] = LEASE_SECONDS
_claim, _finish, _fail, _acknowledge = attempt.claim, attempt.finish, attempt.fail, attempt.acknowledge


def _chaos_claim(store: Store, job_id: str, worker: str, ttl: float) -> Any:
    case = job_of(store, job_id).case
    reach("queued", case)
    claimed = _claim(store, job_id, worker, ttl)
    if claimed is not None:
        note("claimed", case, claimed.attempt)
        reach("leasing", case)
    return claimed


def _last_word(write: Callable[..., None]) -> Callable[..., None]:
    def spoken(store: Store, claimed: Any, *words: Any, **named: Any) -> None:
        if write is not _acknowledge:
            reach("storing", claimed.job.case)
        try:
            write(store, claimed, *words, **named)
        finally:
            note("left", claimed.job.case, claimed.attempt)

    return spoken


attempt.claim = _chaos_claim
attempt.finish, attempt.fail, attempt.acknowledge = map(_last_word, (_finish, _fail, _acknowledge))


@event.listens_for(Engine, "before_cursor_execute")
def _fail_a_write(_connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
    if statement.startswith(("UPDATE", "INSERT")) and consume("write-fails"):
        raise OperationalError(statement, {}, Exception("disk I/O error"))


# -- the device: moments within a deployment and before a result is fetched; a transfer that goes wrong -----

_deploy, _call, _bytes_of = RunnerCall.deploy, RunnerCall.call, deployment.bytes_of
#: The case whose files are on their way to a device.
deployed = ""


def _chaos_deploy(self: RunnerCall) -> None:
    guard, pieces = self.guard, 0

    def watched() -> None:
        nonlocal pieces
        pieces += 1
        if pieces == PIECE:
            reach("deploying", self.job.case)
        guard()

    def send(data: Path | bytes, target: str, executable: bool) -> None:
        if isinstance(data, Path) and is_to_be_damaged():
            data = flipped(data.read_bytes())
        type(self.agent)._send(self.agent, data, target, executable)

    global deployed
    self.guard, deployed = watched, self.job.case
    self.agent._send = send  # type: ignore[method-assign]
    try:
        _deploy(self)
    finally:
        self.guard, deployed = guard, ""
        del self.agent._send


def is_to_be_damaged() -> bool:
    """Whether the bytes that are about to travel to a device are those that go wrong."""
    return deployed == "victim" and consume("corrupt")


def _chaos_bytes(blob: Blob) -> Iterator[bytes]:
    for data in _bytes_of(blob):
        yield flipped(data) if is_to_be_damaged() else data


def _chaos_call(self: RunnerCall, request: Any) -> Any:
    def fetch(source: str, limit: int) -> bytes:
        reach("collecting", self.job.case)
        return type(self.agent).fetch(self.agent, source, limit)

    def receive(source: str, limit: int) -> bytes:
        data = type(self.agent)._receive(self.agent, source, limit)
        return flipped(data) if self.job.case == "victim" and consume("corrupt") else data

    self.agent.fetch = fetch  # type: ignore[method-assign]
    self.agent._receive = receive  # type: ignore[method-assign]
    return _call(self, request)


deployment.bytes_of = apart.bytes_of = _chaos_bytes  # type: ignore[attr-defined]
RunnerCall.deploy = _chaos_deploy  # type: ignore[method-assign]
RunnerCall.call = _chaos_call  # type: ignore[method-assign]


def flipped(data: bytes) -> bytes:
    """``data`` with one bit of its middle wrong."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
