"""The framing of commands over adb, on byte streams and on real shells."""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import adbshell
from agents.adbanswer import CLOSE_STDIN, EXIT, STDERR, STDIN, STDOUT, Frames, Marked, UnknownEnd
from agents.adbshell import MARKED, pty_text
from agents.deployment import Pieces


def packet(kind: int, data: bytes) -> bytes:
    return bytes([kind]) + len(data).to_bytes(4, "little") + data


def unpacked(stream: bytes) -> list[tuple[int, bytes]]:
    """The packets of a stream; neighbours of one kind joined."""
    found: list[tuple[int, bytes]] = []
    while stream:
        size = int.from_bytes(stream[1:5], "little")
        kind, data, stream = stream[0], stream[5 : 5 + size], stream[5 + size :]
        if found and found[-1][0] == kind:
            data = found.pop()[1] + data
        found.append((kind, data))
    return found


packets = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=40)), max_size=12)


@given(packets, st.integers(0, 255), st.integers(1, 13))
def test_packets_read_the_same_however_they_are_cut(sent: list[tuple[int, bytes]], code: int, size: int) -> None:
    stream = b"".join(packet(kind, data) for kind, data in sent) + packet(EXIT, bytes([code]))
    frames = Frames(1 << 20)
    for start in range(0, len(stream), size):
        frames.feed(stream[start : start + size])
    assert frames.out.value() == b"".join(data for kind, data in sent if kind == STDOUT)
    assert frames.err.value() == b"".join(data for kind, data in sent if kind == STDERR)
    assert frames.exit_code == code


@pytest.mark.parametrize("stream", [packet(9, b"x"), bytes([STDOUT]) + b"\xff\xff\xff\xff", b"HTTP/1.1 200 OK"])
def test_what_is_no_shell_protocol_is_refused(stream: bytes) -> None:
    with pytest.raises(ValueError, match="packet"):
        Frames(100).feed(stream)


def test_only_the_tail_of_a_flood_is_kept() -> None:
    frames = Frames(100)
    for number in range(1000):
        frames.feed(packet(STDOUT, b"%04d" % number * 25))
    assert frames.out.value() == b"0999" * 25
    assert len(frames.out.kept) <= 200


NONCE = "0123456789abcdef"


def read(data: bytes) -> tuple[int, bytes, bytes]:
    marked = Marked(1 << 20, NONCE)
    marked.feed(data)
    return marked.read()


@given(st.binary(max_size=80), st.binary(max_size=40), st.integers(0, 255), st.sampled_from([b"\n", b"\r\n", b""]))
def test_the_marker_tells_code_output_and_complaints(out: bytes, words: bytes, code: int, end: bytes) -> None:
    mark = NONCE.encode()
    data = b"%b%b:%b:%b:%d:%b%b" % (out, mark, words, mark, code, mark, end)
    assert read(data) == (code, out, words)


@given(st.binary(max_size=200))
def test_no_output_without_the_nonce_is_ever_a_success(output: bytes) -> None:
    for forged in (output, output + b":0:\n", output + b"feed:0:feed\n", output + b"0:0:0"):
        with pytest.raises(UnknownEnd):
            read(forged)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_marker_that_did_not_arrive_whole_says_nothing(cut: int) -> None:
    whole = f"out{NONCE}::{NONCE}:0:{NONCE}".encode()
    with pytest.raises(UnknownEnd):
        read(whole[:-cut])


def test_what_follows_the_marker_makes_it_void() -> None:
    with pytest.raises(UnknownEnd):
        read(f"out{NONCE}::{NONCE}:0:{NONCE}\nand more".encode())


@pytest.mark.parametrize("line", [b"7\r\r\n", b"7\r\n", b"7\n"])
def test_line_ends_of_old_terminals_give_the_same_number(line: bytes) -> None:
    assert pty_text(line) == b"7\n"
    assert int(pty_text(line)) == 7


def test_a_carriage_return_that_ends_no_line_stays() -> None:
    assert pty_text(b"10 %\r20 %\r\n") == b"10 %\r20 %\n"


@pytest.mark.parametrize("shell", [name for name in ("dash", "bash", "ksh") if shutil.which(name)])
@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", 139), ("false", 1)])
def test_a_real_shell_marks_its_end(shell: str, script: str, code: int) -> None:
    text = f'printf "%s" "$1"; echo complaint >&2; {script}'
    done = subprocess.run([shell, "-c", MARKED, "x", NONCE, "", text, "a b'c"], capture_output=True, check=False)
    found, out, words = read(done.stdout)
    assert (found, out) == (code, b"a b'c")
    assert words.startswith(b"complaint\n")


def test_a_script_that_kills_its_shell_leaves_no_marker() -> None:
    text = f"echo {NONCE[:8]}:0:{NONCE[:8]}; kill -KILL 0"
    done = subprocess.run(
        ["dash", "-c", MARKED, "x", NONCE, "", text], capture_output=True, check=False, start_new_session=True
    )
    with pytest.raises(UnknownEnd):
        read(done.stdout)


# -- on a socket -------------------------------------------------------------------------------------


@contextmanager
def device(answer: bytes, wait_for: bytes = b"") -> Iterator[tuple[adbshell.Opener, list[bytes]]]:
    """A device that reads until ``wait_for`` and then sends ``answer`` and hangs up."""
    ours, theirs = socket.socketpair()
    read_bytes: list[bytes] = [b""]
    hang_up = threading.Event()

    def talk() -> None:
        with theirs:
            theirs.settimeout(20)
            while wait_for not in read_bytes[0]:
                read_bytes[0] += theirs.recv(65536)
            theirs.sendall(answer)
            if not answer:
                hang_up.wait(20)

    thread = threading.Thread(target=talk)
    thread.start()

    @contextmanager
    def opened(service: str) -> Iterator[socket.socket]:
        with ours:
            yield ours

    try:
        yield opened, read_bytes
    finally:
        hang_up.set()
        ours.close()
        thread.join()


def test_standard_input_arrives_whole_and_its_end_is_told() -> None:
    data = bytes(range(256)) * 2000
    close = packet(CLOSE_STDIN, b"")
    with device(packet(STDOUT, b"ok") + packet(EXIT, b"\0"), close) as (opened, got):
        done = adbshell.run("v2", opened, "cat", (), seconds=20, keep=100, stdin=io.BytesIO(data))
    assert (done.exit_code, done.stdout) == (0, b"ok")
    assert unpacked(got[0]) == [(STDIN, data), (CLOSE_STDIN, b"")]


def test_a_line_that_dies_before_the_exit_code_is_no_end() -> None:
    with device(packet(STDOUT, b"half")) as (opened, _), pytest.raises(EOFError):
        adbshell.run("v2", opened, "x", (), seconds=20, keep=100)


def test_a_device_that_goes_silent_is_waited_for_until_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adbshell, "GRACE_SECONDS", 0.1)
    with device(b"") as (opened, _), pytest.raises(TimeoutError):
        adbshell.run("v2", opened, "x", (), seconds=0.1, keep=100)


def test_an_interrupt_closes_standard_input() -> None:
    stop = threading.Event()
    stop.set()
    with device(packet(EXIT, bytes([137])), packet(CLOSE_STDIN, b"")) as (opened, _):
        done = adbshell.run("v2", opened, "x", (), seconds=60, keep=100, stop=stop)
    assert (done.exit_code, done.timed_out) == (137, True)


def test_a_script_that_ends_is_heard_while_there_is_nothing_yet_for_it_to_read() -> None:
    class Nothing:
        def read(self, _size: int, /) -> None:
            return None

    with device(packet(EXIT, b"\3")) as (opened, _):
        done = adbshell.run("v2", opened, "exit 3", (), seconds=60, keep=100, stdin=Nothing())
    assert (done.exit_code, done.timed_out) == (3, False)


def test_what_comes_in_bits_with_pauses_arrives_whole() -> None:
    close = packet(CLOSE_STDIN, b"")
    source = Pieces(iter([b"", b"one ", b"", b"", b"two", b""]))
    with device(packet(EXIT, b"\0"), close) as (opened, got):
        adbshell.run("v2", opened, "cat", (), seconds=60, keep=100, stdin=source)
    assert unpacked(got[0]) == [(STDIN, b"one two"), (CLOSE_STDIN, b"")]
    assert adbshell.whole(Pieces(iter([b"", b"one ", b"", b"two"]))) == b"one two"


# -- the length of a request ---------------------------------------------------------------------------


@given(st.text(max_size=6000), st.lists(st.text(max_size=3000), max_size=40).map(tuple))
def test_no_request_is_longer_than_the_device_takes(text: str, arguments: tuple[str, ...]) -> None:
    for shell, most in (("exec", 4095), ("pty", 4095), ("v2", 65535)):
        asked: list[str] = []

        @contextmanager
        def opened(service: str, asked: list[str] = asked) -> Iterator[socket.socket]:
            asked.append(service)
            raise EOFError
            yield

        with pytest.raises(EOFError):
            adbshell.run(shell, opened, text, arguments, seconds=1, keep=1, given="/data/x")
        fits = adbshell.fits(shell, "/data/x", text, arguments)
        assert fits == (len(asked[0].encode()) <= most)
    assert adbshell.fits("exec", f"/{'d' * 200}/.lockstep-{'0' * 16}", adbshell.FROM_FILE, (f"/{'d' * 200}/x",))
