"""The line to a device: a loopback port whose connections are passed on, and which can be cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

_CHUNK = 256 * 1024

#: Opens a connection to the daemon; OSError when it takes none.
Connect = Callable[[], socket.socket]


class Relay:
    """Accepts on a loopback port until closed. Constructed around a bound socket; threads start with ``start``."""

    def __init__(self, listener: socket.socket, connect: Connect) -> None:
        self._listener, self._connect = listener, connect
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._open = threading.Event()
        self._flowing = threading.Event()
        self._open.set()
        self._flowing.set()

    def start(self) -> None:
        """Listen and pass connections on."""
        self._listener.listen(64)
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    @property
    def state(self) -> str:
        """``open``, ``cut`` or ``silent``."""
        return "cut" if not self._open.is_set() else "open" if self._flowing.is_set() else "silent"

    def cut(self, silent: bool = False) -> None:
        """End what is connected and refuse the next; ``silent``: stay connected, and nothing comes through."""
        if silent:
            self._flowing.clear()
            return
        with self._lock:
            self._open.clear()
            pairs, self._pairs = self._pairs, []
        self._flowing.set()
        for pair in pairs:
            _hang_up(pair)

    def mend(self) -> None:
        """Let through what comes next, and what waited."""
        self._open.set()
        self._flowing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(near,), name="relay", daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        try:
            self._flowing.wait()
            far = self._connect()
        except OSError:
            near.close()
            return
        pair = (near, far)
        for end in pair:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            refused = not self._open.is_set()
            if not refused:
                self._pairs.append(pair)
        if not refused:
            back = threading.Thread(target=self._pump, args=(far, near), name="relay", daemon=True)
            back.start()
            self._pump(near, far)
            back.join()
            with self._lock, suppress(ValueError):
                self._pairs.remove(pair)
        near.close()
        far.close()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        buffer = memoryview(bytearray(_CHUNK))
        with suppress(OSError):
            while count := source.recv_into(buffer):
                self._flowing.wait()
                target.sendall(buffer[:count])
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _hang_up(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
