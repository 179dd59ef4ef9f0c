"""Agents of emulated adb devices, and lines to them that can be stopped in the middle."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agents.adb import AdbAgent
from agents.adbdaemon import Endpoint
from tests.agents.adbd import AdbDevice


def agent_of(*serials: str, name: str = "phone", **more: str) -> AdbAgent:
    return AdbAgent(name, "x86-64", serials=serials, **more)  # type: ignore[arg-type]


def listener(endpoint: Endpoint) -> socket.socket | None:
    """A socket that listens where a server did; None while somebody else does."""
    try:
        endpoint.connect(1).close()
    except ConnectionRefusedError:  # nobody, though a server that was killed leaves its socket behind
        if endpoint.path:
            Path(endpoint.path).unlink()
    except FileNotFoundError:
        pass
    else:
        return None
    with suppress(OSError):
        if not endpoint.path:
            return socket.create_server(("127.0.0.1", endpoint.port))
        made = socket.socket(socket.AF_UNIX)
        made.bind(endpoint.path)
        made.listen()
        return made
    return None


def ended(device: AdbDevice, pid: int) -> bool:
    try:
        return " Z " in (device.root / f"proc/{pid}/stat").read_text()
    except OSError:
        return True


def left_over(device: AdbDevice) -> list[str]:
    """The command lines of what runs there beside the first process and the daemon."""
    lines = []
    for path in (device.root / "proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and path.name != "1":
                lines.append((path / "cmdline").read_text().replace("\0", " ").strip())
    return [line for line in lines if line and not line.endswith("/adbd")]


class Proxy:
    """A second address of a device, which can stop in the middle: connected, and nothing comes through any more."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.serial = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.left = 1 << 60
        self._open = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(60)
        for end in self._open:
            end.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                far = socket.create_connection(("127.0.0.1", self._target), 10)
                self._open.append(far)
                self._start(self._pump, near, far, True)
                self._start(self._pump, far, near, False)

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            source.settimeout(None)
            while data := source.recv(4096):
                if self.left > 0:
                    target.sendall(data)
                    self.left -= len(data) if counted else 0
            target.shutdown(socket.SHUT_WR)


@contextmanager
def proxy_to(device: AdbDevice) -> Iterator[Proxy]:
    proxy = Proxy(device.port)
    try:
        yield proxy
    finally:
        proxy.close()
