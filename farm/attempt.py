"""One attempt at one job: claim, execute under a heartbeat, store the outcome. Knows nothing of Celery."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from engine.contract.errors import InfraError, LeaseLost, LockstepError, StoreError
from farm.health import names_of
from farm.jobs import Executor, JobError
from farm.store.database import Store
from farm.store.transitions import Claim, acknowledge, claim, fail, finish, heartbeat

LEASE_SECONDS = 10.0
STUCK_SECONDS = 15.0
STORE_RETRY_SECONDS = 0.2
OF_THE_FARM = ("planned", "moved")
"""Keys of a job's spec that its executor does not see."""
log = logging.getLogger("lockstep.worker")


def run_job(
    store: Store,
    job_id: str,
    execute: Executor,
    worker: str,
    *,
    ttl: float = LEASE_SECONDS,
    on_stuck: Callable[[], None] = lambda: None,
) -> None:
    """Run ``job_id`` if it is there to be run. Nothing is raised for what the job itself does wrong.

    ``on_stuck`` is called from another thread when the executor goes on for long after its lease was lost.
    """
    asked = time.monotonic()  # a worker may be stopped before it learns that it has the lease
    claimed = claim(store, job_id, worker, ttl)
    if claimed is None:
        log.info("job=%s not there to be run", job_id)
        return
    job = claimed.job
    where = f"run={job.run_id} job={job.id} attempt={claimed.attempt} device={job.device} case={job.case}"
    log.info("%s started token=%d", where, claimed.lease.token)
    try:
        with Heartbeat(store, claimed, ttl, on_stuck, asked) as pulse:
            outcome = _execute(claimed, execute, pulse.guard, where)
            _tell(store, claimed, outcome, ttl)
        log.info("%s ended", where)
    except LeaseLost as error:
        log.warning("%s lost: %s", where, error.message)
        acknowledge(store, claimed)


def _tell(store: Store, claimed: Claim, outcome: dict[str, Any] | JobError, patience: float) -> None:
    """Store the outcome; a store that is away for less than ``patience`` seconds does not cost the work."""
    end = time.monotonic() + patience
    while True:
        try:
            if isinstance(outcome, JobError):
                fail(store, claimed, outcome, retry=outcome.type in names_of(InfraError))
            else:
                finish(store, claimed, outcome)
        except StoreError as error:
            if time.monotonic() >= end:
                raise
            log.warning("job=%s outcome: %s", claimed.job.id, error.message)
            time.sleep(STORE_RETRY_SECONDS)
        else:
            return


def _execute(claimed: Claim, execute: Executor, guard: Callable[[], None], where: str) -> dict[str, Any] | JobError:
    """The executor's answer or the record of its error; ``LeaseLost`` when our own lease is over."""
    job, token = claimed.job, claimed.lease.token
    attempt = {"job": job.id, "attempt": claimed.attempt, "token": token, "limit_seconds": job.timeout}
    spec = {key: value for key, value in job.spec.items() if key not in OF_THE_FARM} | attempt
    try:
        result = execute(spec, guard)
        json.dumps(result)  # a result that is not JSON is the executor's fault, not the store's
    except LockstepError as error:
        if isinstance(error, LeaseLost):
            guard()  # our own lease: nothing may be written
        log.warning("%s failed: %s: %s", where, type(error).__name__, error.message)
        return JobError.of(error)
    except Exception as error:
        log.exception("%s failed unexpectedly", where)
        return JobError.internal(error)
    return result


class Heartbeat:
    """Renews a lease while its ``with`` block runs; ``guard`` raises as soon as that is not possible any more.

    ``asked`` is when the lease was asked for (monotonic): it may be over ``ttl`` seconds later.
    """

    def __init__(self, store: Store, claimed: Claim, ttl: float, on_stuck: Callable[[], None], asked: float) -> None:
        self._store = store
        self._claimed = claimed
        self._ttl = ttl
        self._on_stuck = on_stuck
        self._valid_until = asked + ttl
        self._lost = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def guard(self) -> None:
        """Raise ``LeaseLost`` once the device may belong to somebody else."""
        if self._lost or time.monotonic() >= self._valid_until:
            device = self._claimed.job.device
            raise LeaseLost(
                f"device {device}: lease {self._claimed.lease.token} is over",
                hint="nothing to do: the job runs again under a new lease, unless it was cancelled",
                device=device,
            )

    def _beat(self) -> None:
        while not self._lost and not self._over.wait(self._ttl / 10):
            asked = time.monotonic()
            try:
                heartbeat(self._store, self._claimed, self._ttl)
                self._valid_until = asked + self._ttl
            except LeaseLost:
                self._lost = True
            except StoreError as error:  # the lease may outlive a short absence of the store
                log.warning("job=%s heartbeat: %s", self._claimed.job.id, error.message)
                self._lost = time.monotonic() >= self._valid_until
        if not self._over.wait(STUCK_SECONDS):
            log.error("job=%s goes on without its lease: its worker ends", self._claimed.job.id)
            self._on_stuck()
