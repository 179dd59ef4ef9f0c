"""The message broker: the user's Redis, or an embedded Valkey that lives as long as somebody uses it.

Users of the embedded broker hold a shared lock on ``users.lock``; the kernel drops it however they end. A
supervisor (``farm/valkey.py``, a process of its own) waits for the exclusive lock: when it gets it, nobody is left
and it ends the server. ``docs/decisions/embedded-broker.md`` has the alternatives.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol
from urllib.parse import urlsplit

from engine.contract.errors import BrokerError, ConfigError
from engine.places import state_root
from farm.secrets import read_secret, redact, remember
from farm.valkey import Endpoint, answers, read_endpoint

URL_VARIABLE = "LOCKSTEP_BROKER_URL"
INSECURE_VARIABLE = "LOCKSTEP_BROKER_INSECURE"
SCHEMES = ("redis", "rediss", "redis+socket", "unix")
START_SECONDS = 20.0


class Broker(Protocol):
    """Where messages go. ``url`` may hold a password: never print it."""

    embedded: bool

    @property
    def url(self) -> str:
        """What Celery connects to."""

    def ensure(self) -> None:
        """Make it answer again if that is ours to do; ``BrokerError`` when it does not."""

    def __enter__(self) -> Broker: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...


def choose_broker(state: Path | None = None) -> Broker:
    """The broker of ``LOCKSTEP_BROKER_URL``, else the embedded one of the state folder."""
    url = read_secret(URL_VARIABLE)
    return ExternalBroker(check_url(url)) if url else EmbeddedBroker(state or state_root())


def check_url(url: str) -> str:
    """The URL itself; ``ConfigError`` for an unknown scheme, or one that lets the network in without a password.

    ``LOCKSTEP_BROKER_INSECURE=1`` asks for the latter, and for TLS without looking at the certificate.
    """
    remember(url)
    try:
        parts = urlsplit(url)
        host, password, _ = parts.hostname, parts.password, parts.port
    except ValueError as error:
        raise ConfigError(f"{URL_VARIABLE}: {error}", hint="for example redis://:PASSWORD@HOST:6379/0") from error
    if parts.scheme not in SCHEMES:
        raise ConfigError(
            f"{URL_VARIABLE}: {parts.scheme or 'no'} scheme is not one of {', '.join(SCHEMES)}",
            hint="Lockstep queues through Redis or Valkey, for example redis://:PASSWORD@HOST:6379/0",
        )
    insecure = os.environ.get(INSECURE_VARIABLE) == "1"
    if "ssl_cert_reqs=none" in parts.query.lower() and not insecure:
        raise ConfigError(
            f"{URL_VARIABLE}: ssl_cert_reqs=none trusts whoever answers",
            hint=f"name the authority with ssl_ca_certs=FILE; {INSECURE_VARIABLE}=1 takes it as it is",
        )
    if host and not password and not _is_loopback(host) and not insecure:
        raise ConfigError(
            f"{URL_VARIABLE}: {host} is reached over the network without a password",
            hint="set a password on the server and use redis://:PASSWORD@HOST:PORT/0: whoever can queue a job "
            f"can run programs on your devices. {INSECURE_VARIABLE}=1 takes it as it is",
        )
    return url


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ExternalBroker:
    """A broker that others run; nothing is started and nothing is ended."""

    embedded = False

    def __init__(self, url: str) -> None:
        self.url = url

    def ensure(self) -> None:
        """``BrokerError`` when it does not answer."""
        import redis  # noqa: PLC0415 - only needed here, and slow to import

        try:
            redis.Redis.from_url(for_redis(self.url), socket_connect_timeout=5, socket_timeout=5).ping()
        except (redis.RedisError, OSError) as error:
            raise BrokerError(
                f"{URL_VARIABLE}: the broker does not answer: {redact(str(error))}",
                hint="start it, mend the URL, or unset the variable to use the embedded broker",
            ) from error

    def __enter__(self) -> ExternalBroker:
        self.ensure()
        return self

    def __exit__(self, *_: object) -> None:
        pass


def for_redis(url: str) -> str:
    """redis-py says unix:// where Celery says redis+socket://."""
    return url.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db=")


class EmbeddedBroker:
    """One Valkey a state folder, shared by all commands of one user that run at the same time."""

    embedded = True

    def __init__(self, state: Path) -> None:
        self.folder = state / "broker"
        self._users: IO[str] | None = None
        self._endpoint: Endpoint | None = None

    @property
    def url(self) -> str:
        """With the password in it."""
        if self._endpoint is None:
            raise BrokerError("the embedded broker is not started", hint="use it inside its `with` block")
        return self._endpoint.url

    def __enter__(self) -> EmbeddedBroker:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)
            self._users = (self.folder / "users.lock").open("a")
        except OSError as error:
            raise BrokerError(
                f"{self.folder}: {error.strerror}", hint="set LOCKSTEP_STATE to a writable folder"
            ) from error
        # Waits while the supervisor of the users before us is ending its server
        fcntl.flock(self._users, fcntl.LOCK_SH)
        try:
            self.ensure()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._users is not None:
            self._users.close()
            self._users = None
        self._endpoint = None

    def ensure(self) -> None:
        """Start the supervisor unless the server answers; two users at once start one."""
        with (self.folder / "start.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._find():
                return
            self._start()

    def _find(self) -> bool:
        self._endpoint = read_endpoint(self.folder)
        return self._endpoint is not None and answers(self._endpoint)

    def _start(self) -> None:
        log_path = self.folder / "supervisor.log"
        if not self._is_supervised():
            with log_path.open("wb") as log:
                # Returns at once: the supervisor itself is nobody's child, as it may outlive the command that asked
                subprocess.run(
                    [sys.executable, "-m", "farm.valkey", str(self.folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    check=False,
                    timeout=START_SECONDS,
                )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._is_supervised():
            if self._find():
                return
            time.sleep(0.01)
        words = log_path.read_text(encoding="utf-8", errors="replace").strip() if log_path.exists() else ""
        raise BrokerError(
            f"the embedded broker did not start: {words or 'no word from it'}",
            hint=f"look into {self.folder}, or set {URL_VARIABLE} to a Redis of your own",
        )

    def _is_supervised(self) -> bool:
        """True while a supervisor lives, though its server may not answer yet."""
        with (self.folder / "supervisor.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
