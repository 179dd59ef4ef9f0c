"""A TCP relay on loopback that counts what passes: all bytes of a link, not only those that somebody meant to send."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PIECE = 1 << 18


@dataclass
class Relay:
    """Carries connections to ``target``; ``there`` and ``back`` are bytes towards it and from it."""

    target: tuple[str, int]
    there: int = 0
    back: int = 0
    _listener: socket.socket = field(default_factory=socket.socket, repr=False)
    _open: list[socket.socket] = field(default_factory=list, repr=False)

    @property
    def port(self) -> int:
        """Where to connect instead of ``target``."""
        return int(self._listener.getsockname()[1])

    def take(self) -> tuple[int, int]:
        """What passed since the last call: bytes there and back."""
        passed = self.there, self.back
        self.there = self.back = 0
        return passed

    def serve(self) -> None:
        """Accept until the listener closes."""
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self.target)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [near, far]
                for source, sink, count in ((near, far, self._count_there), (far, near, self._count_back)):
                    threading.Thread(target=_carry, args=(source, sink, count), daemon=True).start()

    def close(self) -> None:
        """End the listener and every connection."""
        for end in [self._listener, *self._open]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _count_there(self, size: int) -> None:
        self.there += size

    def _count_back(self, size: int) -> None:
        self.back += size


def _carry(source: socket.socket, sink: socket.socket, count) -> None:  # type: ignore[no-untyped-def]
    with suppress(OSError):
        while data := source.recv(PIECE):
            count(len(data))
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def counting_relay(port: int) -> Iterator[Relay]:
    """A relay to a port of this host."""
    relay = Relay(("127.0.0.1", port))
    relay._listener.bind(("127.0.0.1", 0))
    relay._listener.listen()
    thread = threading.Thread(target=relay.serve, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join()
