"""Our own adb server: version-pinned, on a socket of its own, with keys of its own; never the user's.

Users hold a shared lock on ``users.lock`` while they are connected; the kernel drops it however they end. Only who
gets the exclusive lock may end the server, so it never ends under somebody's run. ``agents/adbdaemon.py`` keeps it.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from adbutils import AdbClient, AdbError
from adbutils._adb import AdbConnection

from agents.adbdaemon import Endpoint, binary_version, protocol_version, read_endpoint
from agents.adblist import Listed, parse_devices
from engine.contract.errors import DeviceUnavailable, MissingToolError
from engine.places import state_root

BINARY_VARIABLE = "ADBUTILS_ADB_PATH"
START_SECONDS = 25.0
ANSWER_SECONDS = 10.0
#: How long the next server may take to show itself after ours was ended.
SUCCESSOR_SECONDS = 2.0
NOBODY = "none"
_TAKE_OVER_TRIES = 20
_NO_PORT = 1


class _Connection(AdbConnection):  # type: ignore[misc] # adbutils has no types
    """A connection that never starts a server: adbutils would start the user's own one."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        self._made_by = endpoint, seconds
        super().__init__("127.0.0.1", endpoint.port)

    def _safe_connect(self) -> socket.socket:
        endpoint, seconds = self._made_by
        return endpoint.connect(seconds)


class _Client(AdbClient):  # type: ignore[misc] # adbutils has no types
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__("127.0.0.1", endpoint.port or _NO_PORT)  # without a port it would take the user's
        self._endpoint = endpoint

    def make_connection(self, timeout: float | None = None) -> AdbConnection:
        return _Connection(self._endpoint, timeout or ANSWER_SECONDS)


def adb_binary() -> str:
    """The adb program: ADBUTILS_ADB_PATH when set, else the one bundled with adbutils; never one from PATH."""
    chosen = os.environ.get(BINARY_VARIABLE)
    spec = importlib.util.find_spec("adbutils")
    bundled = [Path(root) / "binaries" / "adb" for root in (spec.submodule_search_locations or () if spec else ())]
    path = next((path for path in ([Path(chosen)] if chosen else bundled) if os.access(path, os.X_OK)), None)
    if path is None:
        raise MissingToolError(
            f"{BINARY_VARIABLE} names no program: {chosen}" if chosen else "adbutils brings no adb for this platform",
            hint=f"install adb from your platform and set {BINARY_VARIABLE} to it",
        )
    return str(path)


def ask(connection: AdbConnection, service: str) -> None:
    """Ask for one service and read that it is granted. Raises AdbError with the server's reason."""
    data = service.encode(errors="surrogateescape")
    if len(data) > 0xFFFF:
        raise AdbError(f"a request of {len(data)} bytes is more than adb can be told")
    connection.conn.sendall(f"{len(data):04x}".encode() + data)
    connection.check_okay()


class AdbServer:
    """A ``with`` block in which our server runs. ``folder`` is its state; the constructor does no I/O."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or state_root() / "adb"
        self._users: IO[str] | None = None
        self.endpoint = Endpoint()

    def __enter__(self) -> AdbServer:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)
            self._users = (self.folder / "users.lock").open("a")
            # Waits while a supervisor that nobody needed any more is ending its server
            fcntl.flock(self._users, fcntl.LOCK_SH)
            os.utime(self._users.fileno())
            self._ensure(self._users)
        except OSError as error:
            self.__exit__()
            raise DeviceUnavailable(
                f"{self.folder}: {error.strerror or error}", hint="set LOCKSTEP_STATE to a writable folder"
            ) from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        users, self._users = self._users, None
        if users is not None:
            with suppress(OSError):
                os.utime(users.fileno())
            users.close()

    # -- what it answers ----------------------------------------------------------------------------

    def client(self) -> AdbClient:
        """adbutils' client of our server."""
        return _Client(self.endpoint)

    def devices(self) -> tuple[Listed, ...]:
        """All devices it knows, whatever their state."""
        return parse_devices(self.query("host:devices"))

    def query(self, service: str, seconds: float = ANSWER_SECONDS) -> str:
        """The text it answers to a ``host…`` service. Raises AdbError with its reason."""
        with self.client().make_connection(seconds) as connection:
            ask(connection, service)
            return str(connection.read_string_block())

    @contextmanager
    def stream(self, serial: str, service: str, seconds: float) -> Iterator[socket.socket]:
        """A stream to one service of a device, opened within ``seconds``. Raises AdbError, OSError or EOFError."""
        connection = self.client().make_connection(seconds)
        # Its own way to close waits 10 ms, with every file and command.
        with connection.conn:
            ask(connection, f"host:tport:serial:{serial}")
            connection.read_exact(8)  # the transport's id
            ask(connection, service)
            yield connection.conn

    def replaced_by(self) -> str | None:
        """The version of the server that took the place of ours, None while ours is there.

        It is asked when a connection broke: another adb in its place, or our own supervisor's next server. One that is
        just starting is waited for, so that it can be named.
        """
        until = time.monotonic() + SUCCESSOR_SECONDS
        while (found := self._successor()) == NOBODY and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def _successor(self) -> str | None:
        there, now = protocol_version(self.endpoint), read_endpoint(self.folder)
        if there is not None and not self.endpoint.version.startswith(there):
            return there
        if now is not None and now.pid != self.endpoint.pid:
            return f"{now.version}, started anew"
        if there is None:
            return NOBODY
        return None if _lives(self.endpoint.pid) else f"{there}, not ours"

    # -- its life -----------------------------------------------------------------------------------

    def _ensure(self, users: IO[str]) -> None:
        """Find the running server or start one; two users at once start one."""
        binary = adb_binary()
        version = binary_version(binary)
        with (self.folder / "start.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self._find()
            if found is not None and found.version != version:
                self._take_over(users, found, version)
                found = None
            self.endpoint = found or self._start(binary)

    def _find(self) -> Endpoint | None:
        """Our running server; a file that a killed supervisor left says nothing about who listens there now."""
        endpoint = read_endpoint(self.folder) if _is_supervised(self.folder) else None
        return endpoint if endpoint is not None and protocol_version(endpoint) is not None else None

    def _take_over(self, users: IO[str], found: Endpoint, version: str) -> None:
        """End a server of another version, if nobody else uses it."""
        for _ in range(_TAKE_OVER_TRIES):  # the supervisor itself holds the lock for an instant now and then
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end_supervisor(self.folder)
                fcntl.flock(users, fcntl.LOCK_SH)
                return
            time.sleep(0.02)
        raise DeviceUnavailable(
            f"the adb server of this host is version {found.version} and in use; this environment has {version}",
            hint="wait until the other runs have ended, or run from the same environment as they do",
        )

    def _start(self, binary: str) -> Endpoint:
        log_path = self.folder / "supervisor.log"
        until = time.monotonic() + START_SECONDS
        if not _is_supervised(self.folder):
            with log_path.open("wb") as log:
                # Returns at once: the supervisor is nobody's child, as it may outlive the command that asked
                subprocess.run(
                    [sys.executable, "-m", "agents.adbdaemon", str(self.folder), binary],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    check=False,
                    timeout=START_SECONDS,
                )
        while time.monotonic() < until and _is_supervised(self.folder):
            found = self._find()
            if found is not None:
                return found
            time.sleep(0.01)
        words = log_path.read_text(encoding="utf-8", errors="replace").strip() if log_path.exists() else ""
        raise DeviceUnavailable(
            f"our adb server did not start: {words[-300:] or 'no word from it'}",
            hint=f"look into {self.folder}/server.log; does `{binary} version` work?",
        )


def stop_server(folder: Path) -> bool:
    """End the server of ``folder`` and wait for it; False, and nothing done, while anybody uses it."""
    if not _is_supervised(folder):
        return True
    with (folder / "users.lock").open("a") as users:
        for _ in range(_TAKE_OVER_TRIES):
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end_supervisor(folder)
                return True
            time.sleep(0.02)
    return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_supervised(folder: Path) -> bool:
    """True while a supervisor lives, though its server may not answer yet."""
    try:
        with (folder / "supervisor.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _end_supervisor(folder: Path) -> None:
    """Tell the supervisor to end its server and itself, and wait until both are gone."""
    with (folder / "supervisor.lock").open("a+") as lock:
        lock.seek(0)
        pid = lock.read().strip()
        if _is_supervised(folder) and pid.isdigit():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)
        fcntl.flock(lock, fcntl.LOCK_EX)
