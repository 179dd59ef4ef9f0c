"""Files over several sync streams: all of them arrive, answers are never waited for needlessly, one fault ends all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import adbpush
from agents.adbpush import NotWritten, push_all
from agents.apart import Apart
from tests.waiting import wait_until


@dataclass
class Receiver:
    """The device's end of the sync service: keeps what it gets, says OKAY, or what ``answer`` says of a path."""

    answer: Callable[[str], bytes] = lambda _: b"OKAY" + bytes(4)
    files: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    streams: int = 0

    @contextmanager
    def stream(self) -> Iterator[socket.socket]:
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # few answers fit: they must be taken in
        self.streams += 1
        thread = threading.Thread(target=self._serve, args=(theirs,), daemon=True)
        thread.start()
        try:
            yield ours
        finally:
            ours.close()
            thread.join(60)

    def _serve(self, connection: socket.socket) -> None:
        # the host may hang up with answers unread: the line is then reset, whether we read or write
        with connection, connection.makefile("rb") as source, suppress(ConnectionError):
            data = b""
            while head := source.read(8):
                kind, size = head[:4], int.from_bytes(head[4:], "little")
                if kind == b"SEND":
                    path, _, mode = source.read(size).decode().rpartition(",")
                    data = b""
                elif kind == b"DATA":
                    assert size <= adbpush.adbsync.DATA_MAX
                    data += source.read(size)
                else:
                    answer = self.answer(path)
                    if answer[:4] == b"OKAY":
                        self.files[path] = (int(mode), data)
                    connection.sendall(answer)
                    if not answer:
                        return


def names_of(device: Receiver, *waves: Iterable[Apart]) -> list[str]:
    """What ``push_all`` tells of files below /f."""
    with push_all(device.stream, waves, "/f") as names:
        return [name for name in names if name]


def apart(name: str, *pieces: bytes, executable: bool = False) -> Apart:
    return Apart(name, pieces, sum(map(len, pieces)), executable)


def refusal(reason: bytes) -> bytes:
    return b"FAIL" + len(reason).to_bytes(4, "little") + reason


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 150_000), max_size=3), st.booleans()), max_size=12))
def test_every_file_arrives_once_with_its_bytes_and_its_mode(sizes: list[tuple[list[int], bool]]) -> None:
    device = Receiver()
    files = [
        Apart(f"d/{number}", [bytes([number]) * size for size in pieces], sum(pieces), executable)
        for number, (pieces, executable) in enumerate(sizes)
    ]
    assert sorted(names_of(device, files)) == sorted(file.name for file in files)
    assert device.files == {
        f"/f/{file.name}": (0o100755 if file.executable else 0o100644, b"".join(file.pieces)) for file in files
    }
    assert device.streams <= adbpush.STREAMS


def test_thousands_of_small_files_need_no_answer_in_between() -> None:
    device = Receiver()
    files = (apart(str(number), b"x" * 300) for number in range(3000))
    assert len(names_of(device, files)) == len(device.files) == 3000


def test_the_file_that_is_refused_is_named_and_never_told() -> None:
    device = Receiver(lambda path: refusal(b"Permission denied") if path == "/f/2" else b"OKAY" + bytes(4))
    told = []
    files = (apart(str(number), b"x") for number in range(5))
    with pytest.raises(NotWritten, match="/f/2: Permission denied"), push_all(device.stream, [files], "/f") as names:
        told.extend(name for name in names if name)
    assert set(told) <= {"0", "1", "3", "4"}
    assert "/f/2" not in device.files


def test_a_fault_of_one_stream_ends_the_others() -> None:
    endless = threading.Event()

    def pieces() -> Iterator[bytes]:
        while not endless.wait(0.001):
            yield b"z" * 1000

    device = Receiver(lambda path: refusal(b"No space left on device") if path == "/f/small" else b"OKAY" + bytes(4))
    before = threading.active_count()
    with pytest.raises(NotWritten, match="No space left"):
        names_of(device, [Apart("large", pieces(), 10**9), apart("small", b"x")])
    assert threading.active_count() == before
    endless.set()


def test_what_the_pieces_raise_is_raised_here() -> None:
    class Lost(Exception):
        pass

    def pieces() -> Iterator[bytes]:
        yield b"one"
        raise Lost

    with pytest.raises(Lost):
        names_of(Receiver(), [apart("a", b"x"), Apart("b", pieces(), 10)])


def test_a_device_that_hangs_up_in_the_middle_is_no_success() -> None:
    device = Receiver(lambda path: b"" if path == "/f/1" else b"OKAY" + bytes(4))
    with pytest.raises((EOFError, ConnectionError)):
        names_of(device, (apart(str(number), b"x" * 1000) for number in range(5)))


# -- one wave after the other ------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 400_000), max_size=4), min_size=1, max_size=3))
def test_no_file_is_begun_before_all_of_the_wave_before_have_been_read(sizes: list[list[int]]) -> None:
    device, read, lock = Receiver(), [], threading.Lock()

    def pieces(wave: int, size: int) -> Iterator[bytes]:
        with lock:
            read.append(wave)
        yield b"x" * size
        with lock:
            read.append(wave)

    waves = [
        [Apart(f"{wave}/{number}", pieces(wave, size), size) for number, size in enumerate(files)]
        for wave, files in enumerate(sizes)
    ]
    assert len(names_of(device, *waves)) == len(device.files) == sum(map(len, sizes))
    assert read == sorted(read)


def test_the_end_of_a_wave_is_not_held_back_until_more_is_to_be_sent() -> None:
    device = Receiver()

    def pieces() -> Iterator[bytes]:
        wait_until(lambda: "/f/first" in device.files, "the first file is still here")
        yield b"y"

    assert names_of(device, [apart("first", b"x")], [Apart("second", pieces(), 1)]) == ["first", "second"]


def test_a_stream_that_waits_for_the_next_wave_ends_when_the_other_one_fails() -> None:
    class Lost(Exception):
        pass

    def pieces() -> Iterator[bytes]:
        yield b"one"
        raise Lost

    before = threading.active_count()
    with pytest.raises(Lost):
        names_of(Receiver(), [Apart("large", pieces(), 10**9)], [apart("a", b"x"), apart("b", b"x")])
    assert threading.active_count() == before


def test_nothing_goes_on_once_nobody_wants_it() -> None:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b"z" * 1000

    before = threading.active_count()
    with push_all(Receiver().stream, [[Apart("large", pieces(), 10**9), apart("small", b"x")]], "/f") as names:
        assert next(filter(None, names)) == "small"
    assert threading.active_count() == before


def test_a_device_that_answers_all_the_time_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def answer(_: str) -> bytes:
        nonlocal now
        now += 0.9 * adbpush.SILENCE_SECONDS
        return b"OKAY" + bytes(4)

    monkeypatch.setattr(adbpush.adbsync, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    assert len(names_of(Receiver(answer), [apart(str(number), b"x") for number in range(40)])) == 40


def test_who_waits_for_names_can_look_elsewhere_in_between() -> None:
    over = threading.Event()

    def pieces() -> Iterator[bytes]:
        while not over.wait(0.01):
            yield b"x"

    with push_all(Receiver().stream, [[Apart("slow", pieces(), 10)]], "/f") as names:
        assert next(names) == ""
        over.set()
        assert [name for name in names if name] == ["slow"]
