"""The supervisor of our adb server: ``python -m agents.adbdaemon FOLDER ADB``. Standard library only: it starts fast.

It runs the adb binary as a server on a socket of its own, with keys of its own, starts it again if it dies, and ends
it some time after the last user let go of ``users.lock``. The server ends with the supervisor (parent-death signal).
``adb kill-server`` is refused by the server itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from engine.supervising import end_with_parent, free_port, socket_in, write_private

#: How long an idle server is kept: the next job finds its devices connected.
IDLE_SECONDS = 30.0
START_SECONDS = 20.0
MAX_RESTARTS = 20
USB_BUS = Path("/dev/bus/usb")
#: What a socket holds while the server is busy with something else; a device then waits less often for the next byte.
SEND_BUFFER_BYTES = 2**20
#: What the server may see of our environment: no ANDROID_… or ADB_SERVER_SOCKET that points to another server.
_PASSED_ON = ("PATH", "LANG", "ADB_VENDOR_KEYS", "ADB_LIBUSB", "ADB_USB", "ADB_EMU")


@dataclass(frozen=True)
class Endpoint:
    """A server: where it listens (a socket's path, or a loopback port), its process, its version and its binary."""

    path: str = ""
    port: int = 0
    pid: int = 0
    version: str = ""
    binary: str = ""

    @property
    def address(self) -> str:
        """In adb's words, for its option ``-L``."""
        return f"localfilesystem:{self.path}" if self.path else f"tcp:localhost:{self.port}"

    def connect(self, seconds: float) -> socket.socket:
        """A connection on which no call takes longer than ``seconds``. Raises OSError."""
        if not self.path:
            made = socket.create_connection(("127.0.0.1", self.port), seconds)
            # Requests and answers take turns: waiting to fill a packet would cost 40 ms each.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        made = socket.socket(socket.AF_UNIX)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            # Few may wait to be accepted, and a socket with Python's own timeout is turned away at once then.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds) + 1, 0))
            made.connect(self.path)
            made.settimeout(seconds)
        except BaseException:
            made.close()
            raise
        return made


def read_endpoint(folder: Path) -> Endpoint | None:
    """What the supervisor of ``folder`` wrote last, or None."""
    try:
        return Endpoint(**json.loads((folder / "endpoint.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def ask(endpoint: Endpoint, service: str, seconds: float = 5.0) -> str | None:
    """The answer of the server at ``endpoint`` to ``host:…``, None when there is none."""
    try:
        with endpoint.connect(seconds) as connection:
            connection.sendall(f"{len(service):04x}{service}".encode())
            stream = connection.makefile("rb")
            with stream:
                if stream.read(4) != b"OKAY":
                    return None
                return stream.read(int(stream.read(4), 16)).decode(errors="replace")
    except (OSError, ValueError):
        return None


def protocol_version(endpoint: Endpoint) -> str | None:
    """``1.0.41`` of whatever adb server listens at ``endpoint``, None when none does."""
    answer = ask(endpoint, "host:version")
    try:
        return None if answer is None else f"1.0.{int(answer, 16)}"
    except ValueError:
        return None


def binary_version(adb: str) -> str:
    """``1.0.41 (36.0.0-13206524)``: protocol and build of an adb binary. Raises OSError when it cannot run."""
    done = subprocess.run([adb, "version"], capture_output=True, text=True, timeout=START_SECONDS, check=False)
    protocol = re.search(r"version (\d+\.\d+\.\d+)", done.stdout)
    if protocol is None:
        raise OSError(f"{adb} does not tell its version: {(done.stdout + done.stderr).strip()[-200:]}")
    build = re.search(r"^Version (\S+)", done.stdout, re.MULTILINE)
    return f"{protocol[1]} ({build[1]})" if build else protocol[1]


class Supervisor:
    """One server, for as long as somebody uses it and a little longer."""

    def __init__(self, folder: Path, binary: str) -> None:
        self._folder = folder
        self._binary = binary
        self._version = binary_version(binary)
        self._over = threading.Event()

    def run(self) -> int:
        """Go to the background; there, serve until nobody needs it (0) or the server cannot be kept up (1).

        The lock says that this folder has a supervisor; it passes to the process in the background.
        """
        with (self._folder / "supervisor.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0  # another one was faster
            (self._folder / "endpoint.json").unlink(missing_ok=True)  # of a killed one: who listens there now?
            if os.fork():
                os._exit(0)
            os.setsid()  # Ctrl-C in the terminal of the command that asked is not for us
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            return self._supervise()

    def _supervise(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._over.set())
        threading.Thread(target=self._wait_until_idle, daemon=True).start()
        (self._folder / "home").mkdir(exist_ok=True, mode=0o700)
        (self._folder / "server.log").unlink(missing_ok=True)
        for left in self._folder.glob("*.sock"):  # of a killed one
            left.unlink()
        for _ in range(MAX_RESTARTS):
            if self._serve_once(self._new_endpoint()):
                return 0
            time.sleep(0.1)
        print("the adb server died too often: see server.log", file=sys.stderr)
        return 1

    def _wait_until_idle(self) -> None:
        """Blocks while anybody holds the lock; its file's time is when somebody last came or left."""
        with (self._folder / "users.lock").open("a") as lock:
            while True:
                fcntl.flock(lock, fcntl.LOCK_EX)
                left = os.fstat(lock.fileno()).st_mtime + IDLE_SECONDS - time.time()
                if left <= 0:
                    self._over.set()
                    time.sleep(3600)  # keeps the lock: a new user waits until this process is gone
                fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(min(left, IDLE_SECONDS))

    def _new_endpoint(self) -> Endpoint:
        """A name that no server had before: who knows the one before never talks to this one by mistake."""
        path = socket_in(self._folder, f"adb-{secrets.token_hex(4)}.sock")
        return Endpoint(path, 0 if path else free_port(), 0, self._version, self._binary)

    def _serve_once(self, new: Endpoint) -> bool:
        """Run the server once; True when nobody needs it any more, False when it died."""
        with (self._folder / "server.log").open("ab") as log:
            server = subprocess.Popen(
                [self._binary, "-L", new.address, "server", "nodaemon"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                preexec_fn=end_with_parent,  # noqa: PLW1509 - runs before the lock thread matters: prctl only
            )
        endpoint = self._folder / "endpoint.json"
        try:
            until = time.monotonic() + START_SECONDS
            while server.poll() is None and protocol_version(new) is None and time.monotonic() < until:
                if self._over.wait(0.02):
                    return True
            if server.poll() is None:
                write_private(endpoint, json.dumps(asdict(replace(new, pid=server.pid))))
            while server.poll() is None and not self._over.wait(0.1):
                pass
            return self._over.is_set()
        finally:
            endpoint.unlink(missing_ok=True)
            server.kill()
            server.wait()
            if new.path:
                Path(new.path).unlink(missing_ok=True)

    def _environment(self) -> dict[str, str]:
        """HOME is ours, so that ~/.android and its keys are neither read nor written."""
        home = str(self._folder / "home")
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        private = {"HOME": home, "TMPDIR": home, "ADB_REJECT_KILL_SERVER": "1", "ADB_MDNS": "0"}
        # Without a USB bus the server would wait seconds for one at every start.
        bus = {} if sys.platform != "linux" or USB_BUS.exists() else {"ADB_USB": "0"}
        return {**bus, **passed, **private}


def main() -> int:
    """Supervise the folder named on the command line."""
    try:
        return Supervisor(Path(sys.argv[1]), sys.argv[2]).run()
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
