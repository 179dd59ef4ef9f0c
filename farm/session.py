"""A command's use of the farm: store, broker and workers, started together and ended together."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from engine.contract.errors import BrokerError
from engine.places import cache_root, state_root
from farm.broker import Broker, choose_broker
from farm.controller import Controller
from farm.inuse import using
from farm.jobs import RunSummary, RunUpdate
from farm.secrets import read_secret
from farm.stopping import unwinding
from farm.store import Store
from farm.store.transitions import recover
from farm.store.urls import URL_VARIABLE as STORE_VARIABLE
from farm.tasks import DEFAULT_QUEUE, Publisher
from farm.workers import DEFAULT_EXECUTOR, Workers

QUEUE_VARIABLE = "LOCKSTEP_QUEUE"


class FarmSession:
    """``with FarmSession() as farm: … farm.run(run_id)``. Broker and workers start in the background on entry.

    With the embedded broker the session has workers and a queue of its own, which run this checkout's code and end
    with it. With ``LOCKSTEP_BROKER_URL`` the user's workers serve the queue ``LOCKSTEP_QUEUE`` (``lockstep``);
    nothing is started unless ``slots`` is given. ``slots`` is how many jobs run at a time (default: one a core,
    at most two). The executor is ``MODULE:FUNCTION``.
    """

    def __init__(
        self,
        *,
        executor: str = DEFAULT_EXECUTOR,
        slots: int | None = None,
        state: Path | None = None,
        store_url: str | None = None,
    ) -> None:
        self._executor = executor
        self._slots = slots
        self._state = state or state_root()
        self.store = Store(store_url or read_secret(STORE_VARIABLE) or f"sqlite:///{self._state / 'lockstep.db'}")
        self._stack = ExitStack()
        self._started: Future[tuple[Broker, Workers | None]] | None = None
        self._queue = DEFAULT_QUEUE

    def __enter__(self) -> FarmSession:
        with self._stack:
            self._stack.enter_context(unwinding())
            self._stack.enter_context(using(cache_root()))
            self._stack.enter_context(self.store)
            recover(self.store)
            pool = self._stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="farm-start"))
            # Both outlive the pool's thread: nothing below asks for the death signal of that thread
            services = self._stack.enter_context(ExitStack())
            self._started = pool.submit(self._start, services)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._started is not None:
            self._started.exception()  # what is being started must be there before it can be ended
        self._stack.close()

    @property
    def slots(self) -> int:
        """How many jobs run at a time on workers of this session (1 when the user's workers serve it)."""
        _, workers = self._services()
        return workers.slots if workers else 1

    def wait_ready(self) -> None:
        """Return once a worker takes jobs; raises what went wrong while starting."""
        _, workers = self._services()
        if workers is not None:
            workers.wait_ready()

    def run(self, run_id: str, on_update: Callable[[RunUpdate], None] = lambda _: None) -> RunSummary:
        """Drive a planned run to its end, see ``Controller.run``; cancelled jobs have stopped when it raises."""
        broker, workers = self._services()
        controller = Controller(
            self.store,
            broker,
            queue=self._queue,
            slots=workers.slots if workers else None,
            upkeep=workers.check if workers else lambda: None,
        )
        return controller.run(run_id, on_update)

    def _services(self) -> tuple[Broker, Workers | None]:
        if self._started is None:
            raise BrokerError("the farm is not started", hint="use it inside `with FarmSession() as farm`")
        return self._started.result()

    def _start(self, services: ExitStack) -> tuple[Broker, Workers | None]:
        broker = services.enter_context(choose_broker(self._state))
        if not broker.embedded and self._slots is None:
            self._queue = os.environ.get(QUEUE_VARIABLE, DEFAULT_QUEUE)
            return broker, None
        self._queue = f"lockstep-{secrets.token_hex(6)}"
        services.callback(_drop_queue, broker, self._queue)
        workers = Workers(
            broker=broker.url,
            store=self.store,
            queue=self._queue,
            executor=self._executor,
            slots=self._slots or min(2, os.cpu_count() or 1),
            log=self._state / "logs" / f"{self._queue}.log",
        )
        return broker, services.enter_context(workers)


def _drop_queue(broker: Broker, queue: str) -> None:
    with contextlib.suppress(BrokerError):
        publisher = Publisher(broker.url, queue)
        publisher.drop_queue()
        publisher.close()
