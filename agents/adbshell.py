"""Commands on a device over an open adb service: the framed shell protocol, and a marker for shells without it.

``shell,v2`` keeps standard output, standard error and the exit code apart and tells the end of standard input; its
packets are ``id, length (u32, little endian), data`` (AOSP adb, shell_protocol.h). Devices before Android 7 and many
Linux boards have only a byte stream: there the script's end is told by a marker with a fresh nonce. No marker: how the
script ended is unknown, and that is never a success.
"""

from __future__ import annotations

import re
import secrets
import selectors
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from agents.base import INTERRUPT_SECONDS, Completed

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
#: How much of a program's output is kept; of a script of ours, all but what no script prints.
TAIL_BYTES = 64 * 1024
ANSWER_BYTES = 16 * 1024 * 1024
#: Larger than any packet a device may send.
LARGEST_PACKET = 16 * 1024 * 1024
#: How long a device may take to end a program after it was told to.
GRACE_SECONDS = 20.0
_CHUNK = 64 * 1024
_RECEIVE = 256 * 1024

# $1 nonce, $2 a file for standard input or nothing, $3 script, then its arguments. The complaints follow the output
# between two markers; the last one carries the exit code.
MARKED = """
nonce=$1; given=$2; text=$3; shift 3
exec 4>&1
words=$( { if [ -n "$given" ]; then sh -c "$text" lockstep "$@" <"$given"; else sh -c "$text" lockstep "$@"; fi; } \\
    2>&1 >&4 4>&-; status=$?; printf x; exit "$status" )
status=$?
[ -z "$given" ] || rm -f -- "$given"
printf '%s:%s:%s:%s:%s\\n' "$nonce" "${words%x}" "$nonce" "$status" "$nonce"
"""


#: Services for shells that tell no exit code: bytes as they are, or through a terminal (before Android 5).
PLAIN_SERVICES = {"exec": "exec", "pty": "shell"}


#: Old devices take no longer command line; a longer script travels as a file ($1), which it removes itself.
LONGEST_PLAIN = 3000
FROM_FILE = 'script=$(cat -- "$1"); rm -f -- "$1"; shift; eval "$script"'


class Source(Protocol):
    """What a script reads: ``read`` answers with what is there, up to ``size`` bytes, and with none at the end."""

    def read(self, size: int = -1, /) -> bytes: ...  # noqa: D102


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


#: Opens a stream to one service of a device.
Opener = Callable[[str], AbstractContextManager[socket.socket]]


def run(
    shell: str,
    opened: Opener,
    text: str,
    arguments: tuple[str, ...],
    *,
    seconds: float,
    keep: int,
    stdin: Source | None = None,
    given: str = "",
    stop: threading.Event | None = None,
) -> Completed:
    """Run a constant script; each argument is quoted here, once.

    ``shell`` is ``v2``, ``exec`` or ``pty``. ``stdin`` (v2) or the device's file ``given`` (the others) is what it
    reads; without them standard input stays open until the time is up or ``stop`` is set. Then it is closed, and
    ``timed_out`` tells. Raises UnknownEnd, EOFError, ValueError or OSError when the link does not live to tell the end.
    """
    if shell == "v2":
        with opened(f"shell,v2,raw:{_command(text, arguments)}") as connection:
            return _converse_framed(connection, stdin, seconds, keep, stop)
    nonce = secrets.token_hex(16)
    with opened(f"{PLAIN_SERVICES[shell]}:{_command(MARKED, (nonce, given, text, *arguments))}") as connection:
        done = _converse_marked(connection, nonce, seconds, keep, stop)
    if shell == "exec":
        return done
    return replace(done, stdout=pty_text(done.stdout), stderr=pty_text(done.stderr))


def _command(text: str, arguments: tuple[str, ...]) -> str:
    """What a device's own shell runs: to start another one for it would cost a process with every question."""
    return f"{shlex.join(['set', '--', *arguments])}\n{text}"


def pty_text(data: bytes) -> bytes:
    """What a terminal made of line ends undone. For text that crossed a terminal only, never for files."""
    return re.sub(rb"\r+\n", b"\n", data)


def _converse_framed(
    connection: socket.socket, stdin: Source | None, seconds: float, keep: int, stop: threading.Event | None
) -> Completed:
    """After the time the program has ``GRACE_SECONDS`` to end; a device that is silent even then is a dead link."""
    frames = Frames(keep)
    talk = _Talk(connection, _packets(stdin) if stdin is not None else iter(()))
    begun = time.monotonic()
    closed = talk.until(lambda: frames.exit_code is not None, frames.feed, begun + seconds, stop)
    timed_out = not closed and frames.exit_code is None
    if timed_out:
        talk.more(iter([_packet(CLOSE_STDIN, b"")]))
        closed = talk.until(lambda: frames.exit_code is not None, frames.feed, time.monotonic() + GRACE_SECONDS)
    if frames.exit_code is None:
        raise EOFError if closed else TimeoutError
    return Completed(
        frames.exit_code, frames.out.value(), frames.err.value(), time.monotonic() - begun, timed_out=timed_out
    )


def _converse_marked(
    connection: socket.socket, nonce: str, seconds: float, keep: int, stop: threading.Event | None
) -> Completed:
    """After the time the stream is hung up, which ends a supervised program."""
    marked = Marked(keep, nonce)
    talk = _Talk(connection, iter(()))
    begun = time.monotonic()
    ended = talk.until(lambda: False, marked.feed, begun + seconds, stop)
    spent = time.monotonic() - begun
    if not ended:
        return Completed(-9, marked.so_far(), b"", spent, timed_out=True)
    code, out, words = marked.read()
    return Completed(code, out, words, spent)


def _packet(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + len(data).to_bytes(4, "little") + data


def _packets(stdin: Source) -> Iterator[bytes]:
    while data := stdin.read(_CHUNK):
        yield _packet(STDIN, data)
    yield _packet(CLOSE_STDIN, b"")


class _Talk:
    """Sends and receives at the same time on one socket: a flood in one direction never blocks the other."""

    def __init__(self, connection: socket.socket, sending: Iterator[bytes]) -> None:
        self._connection, self._sending, self._pending = connection, sending, memoryview(b"")
        connection.setblocking(False)

    def more(self, sending: Iterator[bytes]) -> None:
        """What is to be sent next; only the packet on its way is still finished."""
        self._sending = sending

    def until(
        self,
        done: Callable[[], bool],
        feed: Callable[[bytes], None],
        deadline: float,
        stop: threading.Event | None = None,
    ) -> bool:
        """Talk until ``done``, the deadline or ``stop``; True when the other side closed before that."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            while not done():
                sending = self._next()
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if sending else 0)
                selector.modify(self._connection, wanted)
                left = deadline - time.monotonic()
                if left <= 0 or (stop is not None and stop.is_set()):
                    return False
                ready = selector.select(left if stop is None else min(left, INTERRUPT_SECONDS))
                for _, events in ready:
                    if events & selectors.EVENT_WRITE:
                        self._send()
                    if events & selectors.EVENT_READ and not self._receive(feed):
                        return True
        return False

    def _next(self) -> bool:
        if not self._pending:
            self._pending = memoryview(next(self._sending, b""))
        return bool(self._pending)

    def _send(self) -> None:
        try:
            self._pending = self._pending[self._connection.send(self._pending) :]
        except BlockingIOError:
            return
        except ConnectionError:  # the program ended without reading all; what it said is still to come
            self._sending, self._pending = iter(()), memoryview(b"")

    def _receive(self, feed: Callable[[bytes], None]) -> bool:
        try:
            data = self._connection.recv(_RECEIVE)
        except BlockingIOError:
            return True
        feed(data)
        return bool(data)
