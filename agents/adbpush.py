"""Files to a device over several streams of the sync service at once.

adb carries one packet of a stream at a time and waits for its receipt: a second stream fills those pauses, and a device
that makes many small files meanwhile receives a large one.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from queue import Empty, SimpleQueue

from agents import adbsync
from agents.apart import Apart

STREAMS = 2
#: Longest silence of a transfer, and a transfer slower than this is taken for a broken link.
SILENCE_SECONDS = 30.0
SLOWEST_BYTES_PER_SECOND = 200_000
MOMENT_SECONDS = 0.1

Stream = Callable[[], AbstractContextManager[socket.socket]]


class NotWritten(Exception):
    """The device does not want one file: its path, and the device's reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


def seconds_for(size: int) -> float:
    """How long ``size`` bytes may take."""
    return SILENCE_SECONDS + size / SLOWEST_BYTES_PER_SECOND


@contextmanager
def push_all(stream: Stream, waves: Sequence[Iterable[Apart]], folder: str) -> Iterator[Iterator[str]]:
    """Begin to write files below ``folder``; in the block, an iterator of their names as the device gets them.

    It gives an empty name whenever none has come for ``MOMENT_SECONDS``, so that who waits can look elsewhere. Up to
    ``STREAMS`` streams share a wave; the next wave begins when all files of one are on their way. ``stream`` opens
    one; it and the pieces of the files are used by other threads, which have ended after the block. The iterator
    raises NotWritten, and whatever a stream or the pieces raise; nothing goes on after that.
    """
    work = _Work(stream, waves, folder)
    threads = [threading.Thread(target=work.run, daemon=True) for _ in range(work.streams)]
    for thread in threads:
        thread.start()
    try:
        yield work.names()
    finally:
        work.stop()
        for thread in threads:
            thread.join()


class _Stopped(Exception):
    """Another stream has failed, or nobody wants the rest."""


class _Wave:
    """Files that may travel at the same time, and the streams that still carry some."""

    def __init__(self, files: Iterable[Apart], streams: int) -> None:
        self._files, self._streams, self._lock = deque(files), streams, threading.Lock()
        self.over = threading.Event()

    def next(self) -> Apart | None:
        """The next file, None when there are none."""
        with suppress(IndexError):  # also when the other stream was quicker
            return self._files.popleft()
        return None

    def leave(self) -> None:
        """A stream has handed over its last file."""
        with self._lock:
            self._streams -= 1
            if not self._streams:
                self.over.set()


class _Work:
    """What is left to send, and what became of the rest: names, an error, None when a stream has no more to do."""

    def __init__(self, stream: Stream, waves: Sequence[Iterable[Apart]], folder: str) -> None:
        listed = [list(files) for files in waves]
        self.streams = min(STREAMS, max(map(len, listed), default=0))
        self._waves = [_Wave(files, self.streams) for files in listed]
        self._stream, self._folder, self._stopped = stream, folder, threading.Event()
        self._told: SimpleQueue[str | BaseException | None] = SimpleQueue()

    def names(self) -> Iterator[str]:
        """What has arrived, until all streams have no more to do."""
        for _ in range(self.streams):
            while (told := self._next_told()) is not None:
                if isinstance(told, BaseException):
                    raise told
                yield told

    def _next_told(self) -> str | BaseException | None:
        try:
            return self._told.get(timeout=MOMENT_SECONDS)
        except Empty:
            return ""

    def stop(self) -> None:
        """Nothing more is wanted."""
        self._stopped.set()
        for wave in self._waves:
            wave.over.set()

    def run(self) -> None:
        """Send files over one stream, without a pause between those of a wave, until there are none."""
        try:
            with self._stream() as connection:
                line = adbsync.Bounded(connection, SILENCE_SECONDS)
                sent: deque[str] = deque()
                for wave in self._waves:
                    self._send(wave, line, sent)
                while sent:
                    self._tell(line, sent)
            self._told.put(None)
        except BaseException as error:  # raised again by the thread that waits
            self._told.put(error)

    def _send(self, wave: _Wave, line: adbsync.Bounded, sent: deque[str]) -> None:
        while (file := wave.next()) is not None:
            line.allow(seconds_for(file.size))
            pieces = self._wanted(file.pieces, line, sent)
            adbsync.push(line, pieces, f"{self._folder}/{file.name}", file.executable)
            sent.append(file.name)
        with suppress(ConnectionError):  # its answer says why
            line.flush()
        wave.leave()
        while sent and not wave.over.is_set():
            self._tell(line, sent)
        wave.over.wait()
        if self._stopped.is_set():
            raise _Stopped

    def _wanted(self, pieces: Iterable[bytes], line: adbsync.Bounded, sent: deque[str]) -> Iterator[bytes]:
        """``pieces``; between them it is told what has arrived, and looked whether all this is still wanted."""
        for piece in pieces:
            if self._stopped.is_set():
                raise _Stopped
            while sent and line.answered():
                self._tell(line, sent)
            yield piece

    def _tell(self, line: adbsync.Bounded, sent: deque[str]) -> None:
        line.renew()
        try:
            adbsync.confirm(line)
        except adbsync.Refused as error:
            raise NotWritten(f"{self._folder}/{sent[0]}", str(error)) from error
        self._told.put(sent.popleft())
