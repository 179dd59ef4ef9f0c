"""Files to a device over several streams of the sync service at once.

adb carries one packet of a stream at a time and waits for its receipt: a second stream fills those pauses, and a device
that makes many small files meanwhile receives a large one.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from queue import SimpleQueue

from agents import adbsync
from agents.apart import Apart

STREAMS = 2
#: Longest silence of a transfer, and a transfer slower than this is taken for a broken link.
SILENCE_SECONDS = 30.0
SLOWEST_BYTES_PER_SECOND = 200_000

Stream = Callable[[], AbstractContextManager[socket.socket]]


class NotWritten(Exception):
    """The device does not want one file: its path, and the device's reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


def seconds_for(size: int) -> float:
    """How long ``size`` bytes may take."""
    return SILENCE_SECONDS + size / SLOWEST_BYTES_PER_SECOND


def push_all(stream: Stream, files: Iterable[Apart], folder: str) -> Iterator[str]:
    """Write files below ``folder``, over up to ``STREAMS`` streams; each name is told once the device has the file.

    ``stream`` opens one; it and the pieces of the files are used by other threads. Raises NotWritten, and whatever a
    stream or the pieces raise; nothing goes on after that.
    """
    work = _Work(stream, deque(files), folder)
    threads = [threading.Thread(target=work.run, daemon=True) for _ in range(min(STREAMS, len(work.files)))]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            while (told := work.told.get()) is not None:
                if isinstance(told, BaseException):
                    raise told
                yield told
    finally:
        work.stopped.set()
        for thread in threads:
            thread.join()


class _Stopped(Exception):
    """Another stream has failed."""


class _Work:
    """What is left to send, and what became of the rest: names, an error, None when a stream has no more to do."""

    def __init__(self, stream: Stream, files: deque[Apart], folder: str) -> None:
        self.files, self.stopped = files, threading.Event()
        self.told: SimpleQueue[str | BaseException | None] = SimpleQueue()
        self._stream, self._folder = stream, folder

    def run(self) -> None:
        """Send files over one stream, without a pause between them, until there are none."""
        try:
            with self._stream() as connection:
                line = adbsync.Bounded(connection, SILENCE_SECONDS)
                sent: deque[str] = deque()
                while (file := self._next()) is not None:
                    line.allow(seconds_for(file.size))
                    pieces = self._wanted(file.pieces, line, sent)
                    adbsync.push(line, pieces, f"{self._folder}/{file.name}", file.executable)
                    sent.append(file.name)
                while sent:
                    self._tell(line, sent)
            self.told.put(None)
        except BaseException as error:  # raised again by the thread that waits
            self.told.put(error)

    def _next(self) -> Apart | None:
        with suppress(IndexError):  # also when the other stream was quicker
            return self.files.popleft()
        return None

    def _wanted(self, pieces: Iterable[bytes], line: adbsync.Bounded, sent: deque[str]) -> Iterator[bytes]:
        """``pieces``; between them it is told what has arrived, and looked whether all this is still wanted."""
        for piece in pieces:
            if self.stopped.is_set():
                raise _Stopped
            while sent and line.answered():
                self._tell(line, sent)
            yield piece

    def _tell(self, line: adbsync.Bounded, sent: deque[str]) -> None:
        try:
            adbsync.confirm(line)
        except adbsync.Refused as error:
            raise NotWritten(f"{self._folder}/{sent[0]}", str(error)) from error
        self.told.put(sent.popleft())
