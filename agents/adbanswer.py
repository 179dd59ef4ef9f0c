"""What a script answers over an adb stream: packets of the framed shell protocol, or plain bytes with markers.

Packets are ``id, length (u32, little endian), data`` (AOSP adb, shell_protocol.h).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
#: How much of a program's output is kept.
TAIL_BYTES = 64 * 1024
#: Larger than any packet a device may send.
LARGEST_PACKET = 16 * 1024 * 1024


class UnknownEnd(Exception):
    """The stream ended and nothing says how the script did."""


@dataclass
class Tail:
    """The last bytes of a stream."""

    limit: int
    kept: bytearray = field(default_factory=bytearray)

    def add(self, data: bytes) -> None:
        """Append, and forget what is older than the limit."""
        self.kept += data
        if len(self.kept) > 2 * self.limit:
            del self.kept[: -self.limit]

    def value(self) -> bytes:
        """What is kept."""
        return bytes(self.kept[-self.limit :])


class Frames:
    """Reads packets of the shell protocol from chunks of any size; data is passed on as it comes."""

    def __init__(self, keep: int) -> None:
        self.out, self.err = Tail(keep), Tail(keep)
        self.exit_code: int | None = None
        self._head = bytearray()
        self._kind = -1
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises ValueError when they cannot be the shell protocol."""
        view = memoryview(data)
        while view:
            if self._left == 0:
                missing = 5 - len(self._head)
                self._head += view[:missing]
                view = view[missing:]
                if len(self._head) == 5:
                    self._kind, self._left = self._head[0], int.from_bytes(self._head[1:], "little")
                    self._head.clear()
                    if self._left > LARGEST_PACKET or self._kind not in (STDOUT, STDERR, EXIT):
                        raise ValueError(f"packet {self._kind} of {self._left} bytes")
                continue
            part = bytes(view[: self._left])
            view = view[len(part) :]
            self._left -= len(part)
            self._take(part)

    def _take(self, part: bytes) -> None:
        if self._kind == STDOUT:
            self.out.add(part)
        elif self._kind == STDERR:
            self.err.add(part)
        elif self.exit_code is None:
            self.exit_code = part[0]


class Marked:
    """Reads the plain stream of ``MARKED``."""

    def __init__(self, keep: int, nonce: str) -> None:
        self._limit = keep
        self._tail = Tail(keep + 2 * TAIL_BYTES)
        self._nonce = nonce.encode()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._tail.add(data)

    def so_far(self) -> bytes:
        """The output of a script that did not end."""
        return self._tail.value()[-self._limit :]

    def read(self) -> tuple[int, bytes, bytes]:
        """Exit code, output and complaints. Raises UnknownEnd when the last marker is absent."""
        data = self._tail.value()
        end = re.search(rb":%b:(\d{1,3}):%b[\r\n]*\Z" % (self._nonce, self._nonce), data)
        if end is None:
            raise UnknownEnd
        out, _, words = data[: end.start()].partition(self._nonce + b":")
        return int(end[1]), out[-self._limit :], words[-TAIL_BYTES:]
