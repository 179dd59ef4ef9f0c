"""Files over the sync service (AOSP adb, SYNC.TXT): binary-safe on every generation of adbd, no shell in between.

Requests are ``ID, length (u32, little endian), data``. A whole file goes out in large writes on one connection:
waiting between small ones is what makes other clients take 90 ms a file.
"""

from __future__ import annotations

import socket
import stat
import time
from collections.abc import Iterable, Iterator

#: Largest data of one packet, both ways (SYNC_DATA_MAX).
DATA_MAX = 64 * 1024


class Refused(Exception):
    """The device answered with a reason of its own."""


class TooLarge(Exception):
    """The file does not fit the limit it was asked for with."""


class Bounded:
    """A socket whose every wait is bounded by ``silence``, and all of them together by ``seconds``."""

    def __init__(self, connection: socket.socket, silence: float, seconds: float) -> None:
        self._connection, self._silence = connection, silence
        self._deadline = time.monotonic() + seconds

    def _wait(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(min(self._silence, left))

    def send(self, data: bytes) -> None:
        """All of ``data``. TimeoutError or another OSError when the line is gone."""
        view = memoryview(data)
        while view:
            self._wait()
            view = view[self._connection.send(view) :]

    def receive(self, size: int) -> bytes:
        """Exactly ``size`` bytes. EOFError when the other side hangs up before."""
        parts = []
        while size:
            self._wait()
            part = self._connection.recv(min(size, 256 * 1024))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def push(line: Bounded, pieces: Iterable[bytes], path: str, executable: bool) -> None:
    """Write ``pieces`` to ``path``, each in one go; folders on the way are made.

    Raises Refused with the device's reason, and what ``pieces`` raises: then the line is of no more use, and once it
    is closed the device removes what it had of the file.
    """
    mode = stat.S_IFREG | (0o755 if executable else 0o644)
    line.send(_request(b"SEND", f"{path},{mode}".encode(errors="surrogateescape")))
    for packets in _packets(pieces):
        try:
            line.send(packets)
        except ConnectionError:
            break  # a device without room answers and hangs up before it has read all
    kind, size = _answer(line)
    if kind != b"OKAY":
        raise Refused(_reason(line, kind, size))


def _packets(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        parts = (piece[at : at + DATA_MAX] for at in range(0, len(piece), DATA_MAX))
        yield b"".join(_request(b"DATA", part) for part in parts)
    yield b"DONE" + int(time.time()).to_bytes(4, "little")


def pull(line: Bounded, path: str, limit: int) -> bytes:
    """The bytes of ``path``. Raises TooLarge beyond ``limit``, Refused when there is no such file."""
    line.send(_request(b"RECV", path.encode(errors="surrogateescape")))
    parts: list[bytes] = []
    left = limit
    while True:
        kind, size = _answer(line)
        if kind == b"DONE":
            return b"".join(parts)
        if kind != b"DATA" or size > DATA_MAX:
            raise Refused(_reason(line, kind, size))
        left -= size
        if left < 0:
            raise TooLarge
        parts.append(line.receive(size))


def _request(kind: bytes, data: bytes) -> bytes:
    return kind + len(data).to_bytes(4, "little") + data


def _answer(line: Bounded) -> tuple[bytes, int]:
    head = line.receive(8)
    return head[:4], int.from_bytes(head[4:], "little")


def _reason(line: Bounded, kind: bytes, size: int) -> str:
    if kind != b"FAIL" or size > DATA_MAX:
        return f"an answer that is no part of the sync protocol: {kind!r}"
    return line.receive(size).decode(errors="replace").strip()
