"""Commands on a device over an open adb service: the framed shell protocol, and a marker for shells without it.

``shell,v2`` keeps standard output, standard error and the exit code apart and tells the end of standard input. Devices
before Android 7 and many Linux boards have only a byte stream: there the script's end is told by a marker with a fresh
nonce. No marker: how the script ended is unknown, and that is never a success.
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
from dataclasses import replace
from typing import Protocol

from agents.adbanswer import CLOSE_STDIN, STDIN, Frames, Marked
from agents.base import INTERRUPT_SECONDS, Completed

#: How much of a script's output is kept: all but what no script of ours prints.
ANSWER_BYTES = 16 * 1024 * 1024
#: How long a device may take to end a program after it was told to.
GRACE_SECONDS = 20.0
_CHUNK = 64 * 1024
_NONCE_BYTES = 16
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


#: Bytes of a request. A device before Android 7 takes 4 KiB with its end, and our server ends itself, with every run on
#: its host, rather than to send it more; to the server itself a request's length is told in four hexadecimal digits.
LONGEST_PLAIN, LONGEST = 4095, 0xFFFF
#: A command that is longer travels as a file ($1), which it removes itself.
FROM_FILE = 'script=$(cat -- "$1"); rm -f -- "$1"; eval "$script"'


class Source(Protocol):
    """What a script reads: ``read`` answers with up to ``size`` bytes, none at the end, None when there is nothing yet.

    It may wait for a moment first.
    """

    def read(self, size: int, /) -> bytes | None: ...  # noqa: D102


def whole(source: Source) -> bytes:
    """All that a source has."""
    parts = []
    while (part := source.read(_CHUNK)) != b"":
        parts.append(part or b"")
    return b"".join(parts)


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
    nonce = secrets.token_hex(_NONCE_BYTES)
    with opened(_service(shell, nonce, given, text, arguments)) as connection:
        if shell == "v2":
            return _converse_framed(connection, stdin, seconds, keep, stop)
        done = _converse_marked(connection, nonce, seconds, keep, stop)
    if shell == "exec":
        return done
    return replace(done, stdout=pty_text(done.stdout), stderr=pty_text(done.stderr))


def fits(shell: str, given: str, text: str, arguments: tuple[str, ...]) -> bool:
    """Whether ``run`` can ask for this in one request."""
    asked = len(_service(shell, "x" * 2 * _NONCE_BYTES, given, text, arguments).encode(errors="surrogateescape"))
    return asked <= (LONGEST if shell == "v2" else LONGEST_PLAIN)


def as_file(text: str, arguments: tuple[str, ...]) -> bytes:
    """A script and its arguments for FROM_FILE."""
    return _command(text, arguments).encode(errors="surrogateescape")


def _service(shell: str, nonce: str, given: str, text: str, arguments: tuple[str, ...]) -> str:
    if shell == "v2":
        return f"shell,v2,raw:{_command(text, arguments)}"
    return f"{PLAIN_SERVICES[shell]}:{_command(MARKED, (nonce, given, text, *arguments))}"


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
    """Nothing among them: nothing yet."""
    while (data := stdin.read(_CHUNK)) != b"":
        yield _packet(STDIN, data) if data else b""
    yield _packet(CLOSE_STDIN, b"")


class _Talk:
    """Sends and receives at the same time on one socket: a flood in one direction never blocks the other."""

    def __init__(self, connection: socket.socket, sending: Iterator[bytes]) -> None:
        self._connection, self._sending, self._pending = connection, sending, memoryview(b"")
        self._more = True
        connection.setblocking(False)

    def more(self, sending: Iterator[bytes]) -> None:
        """What is to be sent next; only the packet on its way is still finished."""
        self._sending, self._more = sending, True

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
                waiting = self._more and not sending  # for the source, which has waited itself
                ready = selector.select(0 if waiting else left if stop is None else min(left, INTERRUPT_SECONDS))
                for _, events in ready:
                    if events & selectors.EVENT_WRITE:
                        self._send()
                    if events & selectors.EVENT_READ and not self._receive(feed):
                        return True
        return False

    def _next(self) -> bool:
        if not self._pending and self._more:
            packet = next(self._sending, None)
            self._more, self._pending = packet is not None, memoryview(packet or b"")
        return bool(self._pending)

    def _send(self) -> None:
        try:
            self._pending = self._pending[self._connection.send(self._pending) :]
        except BlockingIOError:
            return
        except ConnectionError:  # the program ended without reading all; what it said is still to come
            self._sending, self._pending, self._more = iter(()), memoryview(b""), False

    def _receive(self, feed: Callable[[bytes], None]) -> bool:
        try:
            data = self._connection.recv(_RECEIVE)
        except BlockingIOError:
            return True
        feed(data)
        return bool(data)
