"""Files over the sync service (AOSP adb, SYNC.TXT): binary-safe on every generation of adbd, no shell in between.

Requests are ``ID, length (u32, little endian), data``. A whole file goes out in large writes on one connection:
waiting between small ones is what makes other clients take 90 ms a file.
"""

from __future__ import annotations

import select
import socket
import stat
import time
from collections.abc import Iterable
from contextlib import suppress

#: Largest data of one packet, both ways (SYNC_DATA_MAX).
DATA_MAX = 64 * 1024
#: What begins a request and an answer.
HEAD_BYTES = 8
#: What leaves, or is taken in, at a time.
WRITE_BYTES = 256 * 1024


class Refused(Exception):
    """The device answered with a reason of its own."""


class TooLarge(Exception):
    """The file does not fit the limit it was asked for with."""


class Bounded:
    """A socket whose every wait is bounded by ``silence``, and all of them until the next ``allow``.

    What is written leaves in large writes: adb carries one packet of a stream at a time and waits for its receipt.
    """

    def __init__(self, connection: socket.socket, silence: float) -> None:
        connection.setblocking(False)
        self._connection, self._silence = connection, silence
        self._deadline = time.monotonic() + silence
        self._poll = select.poll()
        self._waiting: list[bytes | memoryview] = []
        self._bytes = 0
        self._answers = bytearray()

    def allow(self, seconds: float) -> None:
        """All waits from now on may take ``seconds`` together."""
        self._deadline = time.monotonic() + seconds

    def renew(self) -> None:
        """The other side has shown that it lives: as long as it is never silent, it may take its time."""
        self._deadline = max(self._deadline, time.monotonic() + self._silence)

    def _wait(self, events: int) -> int:
        """Until the socket is ready; what it is ready for."""
        left = min(self._silence, self._deadline - time.monotonic())
        self._poll.register(self._connection, events)
        ready = self._poll.poll(left * 1000) if left > 0 else []
        if not ready:
            raise TimeoutError
        return ready[0][1]

    def write(self, *parts: bytes | memoryview) -> None:
        """Send ``parts`` once there is enough of them, or at ``flush``. Raises what ``flush`` raises."""
        self._waiting += parts
        self._bytes += sum(map(len, parts))
        if self._bytes >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what waits, as it lies. TimeoutError or another OSError when the line is gone.

        Answers are taken in meanwhile: a device that cannot tell them does not read on.
        """
        left = [memoryview(part) for part in (self._waiting if len(self._waiting) < 64 else [b"".join(self._waiting)])]
        self._waiting, self._bytes = [], 0
        while left:
            ready = self._wait(select.POLLOUT | select.POLLIN)
            if ready & ~select.POLLOUT and not self._take_in():
                raise ConnectionResetError
            if ready & select.POLLOUT:
                sent = self._connection.sendmsg(left)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]

    def answered(self) -> bool:
        """Whether an answer has been taken in already, at least its head."""
        return len(self._answers) >= HEAD_BYTES

    def _take_in(self) -> int:
        part = self._connection.recv(WRITE_BYTES)
        self._answers += part
        return len(part)

    def receive(self, size: int) -> bytes:
        """Exactly ``size`` bytes. EOFError when the other side hangs up before."""
        while len(self._answers) < size:
            self._wait(select.POLLIN)
            if not self._take_in():
                raise EOFError
        taken = bytes(self._answers[:size])
        del self._answers[:size]
        return taken


def push(line: Bounded, pieces: Iterable[bytes], path: str, executable: bool) -> None:
    """Send ``pieces`` as the file ``path``; folders on the way are made. ``confirm`` reads what the device says to it.

    Raises what ``pieces`` raises: then the line is of no more use, and once it is closed the device removes what it
    had of the file.
    """
    mode = stat.S_IFREG | (0o755 if executable else 0o644)
    request = _request(b"SEND", f"{path},{mode}".encode(errors="surrogateescape"))
    try:
        line.write(request)
        for piece in pieces:
            view = memoryview(piece)
            for part in (view[at : at + DATA_MAX] for at in range(0, len(view), DATA_MAX)):
                line.write(_head(b"DATA", len(part)), part)
        line.write(_head(b"DONE", int(time.time())))
    except ConnectionError:
        return  # a device without room answers and hangs up before it has read all


def confirm(line: Bounded) -> None:
    """Wait until the device has the next of the files that were sent. Raises Refused with its reason."""
    if not line.answered():
        with suppress(ConnectionError):  # its answer says why
            line.flush()
    kind, size = _answer(line)
    if kind != b"OKAY":
        raise Refused(_reason(line, kind, size))


def pull(line: Bounded, path: str, limit: int) -> bytes:
    """The bytes of ``path``. Raises TooLarge beyond ``limit``, Refused when there is no such file."""
    line.write(_request(b"RECV", path.encode(errors="surrogateescape")))
    line.flush()
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
    return _head(kind, len(data)) + data


def _head(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(4, "little")


def _answer(line: Bounded) -> tuple[bytes, int]:
    head = line.receive(HEAD_BYTES)
    return head[:4], int.from_bytes(head[4:], "little")


def _reason(line: Bounded, kind: bytes, size: int) -> str:
    if kind != b"FAIL" or size > DATA_MAX:
        return f"an answer that is no part of the sync protocol: {kind!r}"
    return line.receive(size).decode(errors="replace").strip()
