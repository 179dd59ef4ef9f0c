"""The Celery door: application, the one task, sending and serving, and the beat. Sole importer of celery and kombu.

A message carries the id of a job and nothing else, as JSON; there is no result backend, because the job table is
the truth and is polled. Messages may come twice or never: claiming a job is a transaction, and the controller
sends again what was not claimed.
"""

from __future__ import annotations

import logging
import signal
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from celery import Celery, signals
from celery.beat import PersistentScheduler, Service
from celery.schedules import crontab, schedule
from kombu.exceptions import OperationalError

from engine.contract.errors import BrokerError
from farm.jobs import Priority
from farm.secrets import redact

TASK = "lockstep.run_job"
SWEEP_TASK = "lockstep.sweep"
DEFAULT_QUEUE = "lockstep"
VISIBILITY_SECONDS = 60
log = logging.getLogger("lockstep.beat")


def make_app(url: str, queue: str = DEFAULT_QUEUE) -> Celery:
    """The application on the broker at ``url``; nothing is connected yet."""
    plain, tls = broker_connection(url)
    app = Celery("lockstep", broker=plain, set_as_current=False)
    app.conf.update(
        broker_use_ssl=tls,
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
            "socket_timeout": 5,  # a broker that takes the connection and says nothing is away, too
            "queue_order_strategy": "priority",
            "priority_steps": sorted(Priority),  # 0 goes first, as in the job table
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


def broker_connection(url: str) -> tuple[str, dict[str, Any] | None]:
    """The URL without its ``ssl_*`` options, and those as the transport takes them; None without TLS.

    Certificates and host names are checked unless the URL says otherwise: by itself kombu takes ``rediss://`` as
    TLS with anybody.
    """
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        return url, None
    options = dict(parse_qsl(parts.query))
    tls: dict[str, Any] = {name: value for name, value in options.items() if name.startswith("ssl_")}
    tls["ssl_cert_reqs"] = ssl.CERT_NONE if tls.get("ssl_cert_reqs", "").lower() == "none" else ssl.CERT_REQUIRED
    unchecked = tls["ssl_cert_reqs"] == ssl.CERT_NONE or tls.get("ssl_check_hostname", "").lower() == "false"
    tls["ssl_check_hostname"] = not unchecked
    rest = urlencode({name: value for name, value in options.items() if name not in tls})
    return urlunsplit(parts._replace(query=rest)), tls


class Publisher:
    """Sends job ids: to its own queue, or to the queue of another host."""

    def __init__(self, url: str, queue: str = DEFAULT_QUEUE) -> None:
        self._app = make_app(url, queue)
        self._queue = queue

    def send(self, job_id: str, queue: str = "", priority: int = Priority.INTERACTIVE) -> None:
        """Send one job id; ``BrokerError`` when the broker does not take it."""
        try:
            self._app.send_task(TASK, args=[job_id], queue=queue or self._queue, priority=priority, retry=False)
        except (OperationalError, OSError) as error:
            raise BrokerError(f"the broker does not take a job: {redact(str(error))}", hint="is it running?") from error

    def drop_queue(self) -> None:
        """Delete a private queue and what is still in it."""
        try:
            with self._app.connection_for_write() as connection:
                connection.default_channel.queue_delete(self._queue)
        except (OperationalError, OSError) as error:
            raise BrokerError(f"the broker does not answer: {redact(str(error))}", hint="is it running?") from error

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
    _worker(app, queue, name).start()


def _worker(app: Celery, queue: str, name: str) -> Any:
    """One slot: takes one message at a time, in this process."""
    return app.Worker(
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


@dataclass(frozen=True)
class Moment:
    """When something is due: every so many seconds, or at a time of day on some days (all if none is named)."""

    every: int | None
    hour: int
    minute: int
    days: tuple[str, ...] = ()

    def celery(self, app: Celery) -> schedule:
        """The same for beat."""
        if self.every is not None:
            return schedule(self.every, app=app)
        return crontab(minute=self.minute, hour=self.hour, day_of_week=",".join(self.days) or "*", app=app)


class _Caller(PersistentScheduler):  # type: ignore[misc]
    """Calls what is due in this process. A broker that is away when the clock strikes loses no night."""

    start: Callable[[str], None]
    producer = None

    def apply_entry(self, entry: Any, producer: object = None) -> None:  # noqa: ARG002 - celery's signature
        try:
            self.start(entry.name)
        except OSError:
            log.exception("sweep=%s did not start", entry.name)
        self.sync()  # after the start: begun twice a sweep goes on, not begun at all a night is lost


def beat(moments: Mapping[str, Moment], timezone: str, folder: Path, start: Callable[[str], None]) -> None:
    """Call ``start`` with the name of each moment that is due, until SIGTERM or Ctrl-C; ``start`` must not wait.

    When each was last due is kept in ``folder``: a moment that was missed is due at once.
    """
    app = Celery("lockstep", set_as_current=False)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    app.conf.update(
        timezone=timezone,
        result_expires=None,  # else beat adds a task of its own that cleans up results
        beat_schedule={
            name: {"task": SWEEP_TASK, "schedule": moment.celery(app), "args": [name]}
            for name, moment in moments.items()
        },
    )
    caller = type("Caller", (_Caller,), {"start": staticmethod(start)})
    clock = Service(app, max_interval=1, schedule_filename=str(folder / "schedule"), scheduler_cls=caller)
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: clock.stop())
    clock.start()
