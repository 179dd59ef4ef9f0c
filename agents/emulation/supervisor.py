"""One process per emulated device: holds its port, starts its first process, answers what is asked of it.

``python -m agents.emulation.supervisor FOLDER`` reads FOLDER/boot.json, prints one JSON line when the device is up
(or cannot be), and serves FOLDER/control until told to end. When it is killed, the device ends with it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from agents.emulation import kernel
from agents.emulation.boot import Boot
from agents.emulation.processes import children
from agents.emulation.relay import Relay

#: How long a daemon may take until it accepts connections; an emulated one needs some seconds.
UP_SECONDS = 60.0
_END_SECONDS = 10
_LONGEST_MESSAGE = 4096


class BootFailed(Exception):
    """The first process could not do a step: which one, and the kernel's error."""

    def __init__(self, step: str, number: int, detail: str) -> None:
        super().__init__(f"{step}: {detail}")
        self.report = {"failed": step, "errno": number, "detail": detail}


class Supervisor:
    """The device of one folder. Only the main thread starts processes: they end when their starter does."""

    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self._folder = folder
        self._boot = Boot.from_json((folder / "boot.json").read_text())
        self._line_lock = threading.Lock()
        self._line: socket.socket | None = None
        self._first: subprocess.Popen[bytes] | None = None
        self._relay = Relay(listener, self._connect)
        self.port = int(listener.getsockname()[1])

    def up(self) -> None:
        """Start the first process and wait until its daemon accepts. Raises BootFailed."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, (self._folder / "log").open("ab") as log:
            self._first = subprocess.Popen(
                [sys.executable, "-m", "agents.emulation.inside", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        ours.send(self._boot.to_json().encode())
        self._map_users(int(str(self._expect(ours, "map")["map"])))
        ours.send(b"mapped")
        self._expect(ours, "made")
        with self._line_lock:  # only now: connections that wait must not talk in between
            self._line = ours
        until = time.monotonic() + UP_SECONDS
        while True:
            with suppress(OSError), self._connect():
                return
            if self._first.poll() is not None or time.monotonic() > until:
                raise BootFailed("daemon", 0, "it accepts no connection")
            time.sleep(0.05)

    def serve(self) -> None:
        """Relay, say that the device is up, and answer requests until ``down``."""
        self._relay.start()
        with _control_socket(self._folder) as control:
            _report(self.status())
            while True:
                conversation, _ = control.accept()
                with conversation, suppress(OSError, ValueError):
                    asked = json.loads(conversation.recv(_LONGEST_MESSAGE))
                    if asked["do"] == "down":
                        self.end()
                        conversation.send(b"{}")
                        return
                    conversation.send(json.dumps(self._answer(asked)).encode())

    def end(self) -> None:
        """Kill the device's first process, and so everything in it."""
        if self._first is not None:
            for pid in children(self._first.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
            with suppress(subprocess.TimeoutExpired):
                self._first.wait(_END_SECONDS)  # it buries pid 1
            self._first.kill()
            self._first.wait()
        with self._line_lock:
            if self._line is not None:
                self._line.close()
                self._line = None

    def status(self) -> dict[str, object]:
        """What is known from outside; ``init`` is the host's number of the device's pid 1."""
        init = children(self._first.pid) if self._first is not None and self._first.poll() is None else []
        return {"port": self.port, "init": init[0] if init else 0, "line": self._relay.state}

    def _answer(self, asked: dict[str, object]) -> dict[str, object]:
        match asked["do"]:
            case "cut":
                self._relay.cut(silent=bool(asked.get("silent")))
            case "mend":
                self._relay.mend()
            case "reboot":
                self._relay.cut()
                self.end()
                try:
                    self.up()
                except BootFailed as error:
                    return error.report
                self._relay.mend()
            case "kill" | "restart" as verb:
                self._ask(verb)
        return self.status()

    def _ask(self, verb: str) -> tuple[dict[str, object], list[int]]:
        with self._line_lock:
            if self._line is None:
                raise ConnectionError("the device is down")
            self._line.send(json.dumps({"do": verb}).encode())
            message, descriptors, _, _ = socket.recv_fds(self._line, _LONGEST_MESSAGE, 1)
        if not message:
            raise ConnectionError("the device's first process is gone")
        answer: dict[str, object] = json.loads(message)
        return answer, descriptors

    def _connect(self) -> socket.socket:
        answer, descriptors = self._ask("connect")
        if not descriptors:
            raise ConnectionRefusedError(str(answer.get("detail")))
        return socket.socket(fileno=descriptors[0])

    def _expect(self, line: socket.socket, name: str) -> dict[str, object]:
        message = line.recv(_LONGEST_MESSAGE)
        answer: dict[str, object] = json.loads(message) if message else {"failed": "start", "detail": "it ended"}
        if name not in answer:
            raise BootFailed(str(answer["failed"]), int(str(answer.get("errno") or 0)), str(answer["detail"]))
        return answer

    def _map_users(self, pid: int) -> None:
        """Nobody when ``pid`` is 0. Root keeps every number; anybody else is the device's root and nobody besides."""
        if not pid:
            return
        process = Path(f"/proc/{pid}")
        maps = {name: kernel.same_numbers(name) for name in ("uid_map", "gid_map")}
        if self._boot.rootless:
            maps = {"setgroups": "deny", "uid_map": f"0 {os.geteuid()} 1", "gid_map": f"0 {os.getegid()} 1"}
        for name, text in maps.items():
            try:
                (process / name).write_text(text)
            except OSError as error:
                raise BootFailed("user namespace", error.errno or 0, str(error)) from error


def _control_socket(folder: Path) -> socket.socket:
    """A socket in the folder, whatever the length of its path (the kernel's limit is 107 bytes)."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        made = socket.socket(socket.AF_UNIX)
        (folder / "control").unlink(missing_ok=True)
        made.bind(f"/proc/self/fd/{handle}/control")
        made.listen(8)
    finally:
        os.close(handle)
    return made


def _report(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def main(folder: Path, port: int, orphan: str) -> int:
    """Bring the device up, say so, serve. ``orphan`` is ``lives`` or ``dies``: with the process that started it."""
    if orphan == "dies":
        kernel.die_with_parent()
    listener = socket.create_server(("127.0.0.1", port))
    supervisor = Supervisor(folder, listener)
    try:
        supervisor.up()
    except BootFailed as error:
        supervisor.end()
        _report(error.report)
        return 3
    supervisor.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
