"""Notices that the broker went away, in a slot.

A Celery worker whose Redis connection breaks while it executes may stop consuming for good (seen with celery and
kombu 5.7, solo pool: the acknowledgement fails, and the broken consumer connection is never looked at again). A
slot is cheap to fork, so one that lost its broker ends after its job, and its host forks another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from farm.broker import for_redis

PING_SECONDS = 0.5


class BrokerWatch:
    """Pings the broker on a connection of its own. Calls ``leave`` once that broke and no job is running.

    ``reached`` is set when the broker answered for the first time.
    """

    def __init__(self, url: str, leave: Callable[[], None]) -> None:
        self.reached = threading.Event()
        self._url = url
        self._leave = leave
        self._busy = threading.Lock()

    def start(self) -> None:
        """Watch in a thread until the process ends."""
        threading.Thread(target=self._watch, name="broker-watch", daemon=True).start()

    def job(self, run: Callable[[], None]) -> None:
        """Run a job that the watch must not interrupt."""
        with self._busy:
            run()

    def _watch(self) -> None:
        client: redis.Redis | None = None
        while True:
            try:
                client = client or self._connected()
                client.ping()
                self.reached.set()
            except (redis.RedisError, OSError):
                if self.reached.is_set():
                    break
            time.sleep(PING_SECONDS)
        with self._busy:
            self._leave()

    def _connected(self) -> redis.Redis:
        return redis.Redis.from_url(
            for_redis(self._url),
            single_connection_client=True,
            retry=Retry(NoBackoff(), 0),  # a connection that heals itself would hide that the server was away
            socket_connect_timeout=5,
            socket_timeout=30,
        )
