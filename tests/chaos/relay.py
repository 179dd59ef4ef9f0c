"""A cable one can pull: a loopback port that passes bytes on until it is cut, and again once it is mended."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from dataclasses import dataclass, field


@dataclass
class Relay:
    """Passes connections to ``port`` on to the loopback port ``target`` from a thread of its own."""

    target: int
    port: int = field(init=False)
    _whole: bool = field(init=False, default=True)

    def __enter__(self) -> Relay:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._wake.send(b"x")
        self._thread.join()
        self.cut()
        for end in (self._listener, self._wake, self._woken):
            end.close()
        self._selector.close()

    def cut(self) -> None:
        """Both ends of every connection see it end, and nobody gets through."""
        with self._lock:
            self._whole = False
            for end in list(self._pairs):
                self._drop(end)

    def mend(self) -> None:
        """New connections get through again."""
        self._whole = True

    def _drop(self, end: socket.socket) -> None:
        other = self._pairs.pop(end, None)
        if other is not None:
            self._pairs.pop(other, None)
            for side in (end, other):
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(side)
                side.close()

    def _serve(self) -> None:
        while not self._over:
            for key, _ in self._selector.select():
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is not self._woken and isinstance(key.fileobj, socket.socket):
                        self._pass_on(key.fileobj)

    def _accept(self) -> None:
        end, _ = self._listener.accept()
        try:
            other = socket.create_connection(("127.0.0.1", self.target), 5) if self._whole else None
        except OSError:
            other = None
        if other is None:
            end.close()
            return
        for one, two in ((end, other), (other, end)):
            one.settimeout(30)
            self._pairs[one] = two
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        other = self._pairs.get(end)
        if other is None:
            return
        try:
            data = end.recv(65536)
            if data:
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(end)
