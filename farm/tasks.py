"""The Celery door: application, the one task, sending and serving. Sole importer of celery and kombu.

A message carries the id of a job and nothing else, as JSON; there is no result backend, because the job table is
the truth and is polled. Messages may come twice or never: claiming a job is a transaction, and the controller
sends again what was not claimed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Celery, signals
from kombu.exceptions import OperationalError

from engine.contract.errors import BrokerError

TASK = "lockstep.run_job"
DEFAULT_QUEUE = "lockstep"
VISIBILITY_SECONDS = 60


def make_app(url: str, queue: str = DEFAULT_QUEUE) -> Celery:
    """The application on the broker at ``url``; nothing is connected yet."""
    app = Celery("lockstep", broker=url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_default_queue=queue,
        # A message that a killed worker held comes back after a minute, not after an hour (see field notes)
        broker_transport_options={
            "visibility_timeout": VISIBILITY_SECONDS,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
            "socket_connect_timeout": 5,
        },
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
    )
    return app


class Publisher:
    """Sends job ids to one queue."""

    def __init__(self, url: str, queue: str = DEFAULT_QUEUE) -> None:
        self._app = make_app(url, queue)
        self._queue = queue

    def send(self, job_id: str) -> None:
        """Send one job id; ``BrokerError`` when the broker does not take it."""
        try:
            self._app.send_task(TASK, args=[job_id], queue=self._queue, retry=False)
        except (OperationalError, OSError) as error:
            raise BrokerError(f"the broker does not take a job: {error}", hint="is it running?") from error

    def drop_queue(self) -> None:
        """Delete a private queue and what is still in it."""
        try:
            with self._app.connection_for_write() as connection:
                connection.default_channel.queue_delete(self._queue)
        except (OperationalError, OSError) as error:
            raise BrokerError(f"the broker does not answer: {error}", hint="is it running?") from error

    def close(self) -> None:
        """Close the connections."""
        self._app.close()


def serve(url: str, queue: str, name: str, run: Callable[[str], None], ready: Callable[[], None]) -> None:
    """Take job ids from ``queue`` one at a time and ``run`` each, until SIGTERM. ``ready`` is called once connected."""
    app = make_app(url, queue)

    @app.task(name=TASK)  # type: ignore[untyped-decorator]
    def run_job(job_id: str) -> None:
        run(job_id)

    def on_ready(**_: Any) -> None:
        ready()

    signals.worker_ready.connect(on_ready, weak=False)
    worker = app.Worker(
        pool="solo",
        concurrency=1,
        queues=[queue],
        hostname=name,
        quiet=True,
        loglevel=logging.WARNING,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
