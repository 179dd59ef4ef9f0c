"""Files to a device over several streams of the sync service at once.

adb carries one packet of a stream at a time and waits for its receipt: a second stream fills those pauses, and a device
that makes many small files meanwhile receives a large one.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
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
    work = _Work(stream, deque(_batches(files)), folder)
    if len(work.batches) == 1:
        with stream() as connection:
            yield from work.send(adbsync.Bounded(connection, SILENCE_SECONDS), work.batches.popleft())
        return
    threads = [threading.Thread(target=work.run, daemon=True) for _ in range(min(STREAMS, len(work.batches)))]
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


def _batches(files: Iterable[Apart]) -> Iterator[list[Apart]]:
    """What one stream sends without a pause: hurried files and the one after them."""
    batch: list[Apart] = []
    for file in files:
        batch.append(file)
        if not file.hurried:
            yield batch
            batch = []
    if batch:
        yield batch


class _Stopped(Exception):
    """Another stream has failed."""


class _Work:
    """What is left to send, and what became of the rest: names, an error, None when a stream has no more to do."""

    def __init__(self, stream: Stream, batches: deque[list[Apart]], folder: str) -> None:
        self.batches, self.stopped = batches, threading.Event()
        self.told: SimpleQueue[str | BaseException | None] = SimpleQueue()
        self._stream, self._folder = stream, folder

    def run(self) -> None:
        """Send batches over one stream until there are none."""
        try:
            with self._stream() as connection:
                line = adbsync.Bounded(connection, SILENCE_SECONDS)
                while self.batches:
                    try:
                        batch = self.batches.popleft()
                    except IndexError:  # the other stream was quicker
                        break
                    for name in self.send(line, batch):
                        self.told.put(name)
            self.told.put(None)
        except BaseException as error:
            self.told.put(error)

    def send(self, line: adbsync.Bounded, batch: list[Apart]) -> Iterator[str]:
        """One batch; its names once they are confirmed."""
        for file in batch:
            line.allow(seconds_for(file.size))
            adbsync.push(line, self._wanted(file.pieces), f"{self._folder}/{file.name}", file.executable)
        for file in batch:
            try:
                adbsync.confirm(line)
            except adbsync.Refused as error:
                raise NotWritten(f"{self._folder}/{file.name}", str(error)) from error
            yield file.name

    def _wanted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if self.stopped.is_set():
                raise _Stopped
            yield piece
