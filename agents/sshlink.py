"""One ssh connection: programs with a deadline, both streams drained, files; third-party errors end here.

Nothing is ever interpolated into a shell script: scripts are constants and get their values as quoted arguments.
"""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import paramiko

from agents.base import INTERRUPT_SECONDS, Completed
from agents.sshlogin import CONNECT_SECONDS, Address, log_in
from engine.contract.errors import DeviceUnavailable, TransferError

#: Longest silence of a transfer.
SILENCE_SECONDS = 30.0
#: A transfer slower than this is taken for a broken link.
SLOWEST_BYTES_PER_SECOND = 200_000
#: How long a device may take to end a program after it was told to.
GRACE_SECONDS = 20.0
#: How long output is still read after a program ended.
STRAGGLER_SECONDS = 20.0
#: How much of a program's output is kept.
TAIL_BYTES = 64 * 1024

# A login shell may greet whoever comes: what a script itself prints begins after this line.
_SAY_MARKER = 'printf "%s\\n" "$1"; shift\n'


@dataclass
class SshLink:
    """A connection to one device; ``device`` is its name in messages. The constructor does no I/O."""

    device: str
    address: Address
    _client: paramiko.SSHClient | None = field(default=None, repr=False)
    _jump: paramiko.SSHClient | None = field(default=None, repr=False)
    _sftp: paramiko.SFTPClient | None = field(default=None, repr=False)

    def open(self) -> None:
        """Connect and log in. Raises DeviceUnavailable with the reason and what to do about it."""
        jump = self.address.jump
        self._jump = log_in(f"{self.device}: jump host", jump) if jump is not None else None
        try:
            self._client = log_in(self.device, self.address, self._jump)
        except BaseException:
            self.close()
            raise
        try:
            with self._bounded(CONNECT_SECONDS):
                self._sftp = self._client.open_sftp()
            channel = self._sftp.get_channel()
            if channel is not None:
                channel.settimeout(SILENCE_SECONDS)
        except (OSError, EOFError, paramiko.SSHException) as error:
            self.close()
            raise DeviceUnavailable(
                f"{self.device}: its sshd offers no sftp",
                hint="add `Subsystem sftp internal-sftp` to its sshd_config",
                device=self.device,
            ) from error

    def close(self) -> None:
        """Hang up; never raises."""
        clients = [client for client in (self._client, self._jump) if client is not None]
        self._client = self._jump = self._sftp = None
        for client in clients:
            client.close()

    def script(self, text: str, *arguments: str, seconds: float, stdin: Iterable[bytes] = ()) -> Completed:
        """Run a constant POSIX shell script with ``arguments``; DeviceUnavailable when it does not end in time.

        ``stdin`` is read piece by piece while the script runs; what it raises ends the script and is raised.
        """
        answer = self._run(text, arguments, seconds, stdin)
        if answer.timed_out:
            raise DeviceUnavailable(
                f"{self.device}: no answer within {seconds:.0f} s",
                hint="is the device overloaded or its storage failing? `lockstep devices --probe`, then try again",
                device=self.device,
            )
        return answer

    def supervised(self, text: str, *arguments: str, seconds: float, stop: threading.Event) -> Completed:
        """Run a script that ends its program when its standard input ends: after ``seconds``, or at ``stop``."""
        return self._run(text, arguments, seconds, None, stop)

    @contextmanager
    def files(self, doing: str, size: int = 0) -> Iterator[paramiko.SFTPClient]:
        """The device's files; a fault is a TransferError, or DeviceUnavailable when the link is gone.

        ``size`` is what will travel, in bytes: it bounds the time.
        """
        if self._sftp is None:
            raise self._gone()
        try:
            with self._bounded(SILENCE_SECONDS + size / SLOWEST_BYTES_PER_SECOND):
                yield self._sftp
        except (EOFError, TimeoutError, ConnectionError, paramiko.SSHException, paramiko.SFTPError) as error:
            raise self._gone() from error
        except OSError as error:
            if not self._alive():
                raise self._gone() from error
            raise TransferError(
                f"{self.device}: cannot {doing}: {error.strerror or error}",
                hint="is its folder writable, and is there room?",
                device=self.device,
            ) from error

    # -- running ---------------------------------------------------------------------------------

    def _run(
        self,
        text: str,
        arguments: Sequence[str],
        seconds: float,
        stdin: Iterable[bytes] | None,
        stop: threading.Event | None = None,
    ) -> Completed:
        begun = time.monotonic()
        marker = secrets.token_hex(8)
        command = shlex.join(["exec", "sh", "-c", _SAY_MARKER + text, "lockstep", marker, *arguments])
        bound = seconds + CONNECT_SECONDS + GRACE_SECONDS + STRAGGLER_SECONDS
        try:
            with self._bounded(bound), self._start(command) as channel:
                out, err = _Tail(channel.recv), _Tail(channel.recv_stderr)
                if stdin is not None:
                    _feed(channel, stdin)
                in_time = _wait(channel.status_event, max(0.0, begun + seconds - time.monotonic()), stop)
                if not in_time:
                    channel.shutdown_write()
                    channel.status_event.wait(GRACE_SECONDS)
                code = channel.exit_status if channel.exit_status_ready() else -1
                printed, complaints = out.wait(), err.wait()
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise self._gone() from error
        if code < 0:  # the supervising shell always leaves with a code of its own
            raise self._gone()
        before, found, after = printed.partition(f"{marker}\n".encode())
        return Completed(code, after if found else before, complaints, time.monotonic() - begun, timed_out=not in_time)

    def _start(self, command: str) -> paramiko.Channel:
        transport = self._client.get_transport() if self._client is not None else None
        if transport is None or not transport.is_active():
            raise EOFError
        channel = transport.open_session(timeout=CONNECT_SECONDS)
        channel.exec_command(command)
        return channel

    @contextmanager
    def _bounded(self, seconds: float) -> Iterator[None]:
        """Hang up after ``seconds``: a peer that froze or a cut line is otherwise waited for without end."""
        timer = threading.Timer(seconds, self._client.close if self._client is not None else lambda: None)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _alive(self) -> bool:
        transport = self._client.get_transport() if self._client is not None else None
        return transport is not None and transport.is_active()

    def _gone(self) -> DeviceUnavailable:
        """Hang up and say so: a link that failed once is not used again."""
        self.close()
        return DeviceUnavailable(
            f"{self.device}: the ssh connection to {self.address.host} port {self.address.port} was lost",
            hint="is the device still on, and on the network? `lockstep devices --probe`, then run again",
            device=self.device,
        )


def _wait(ended: threading.Event, seconds: float, stop: threading.Event | None) -> bool:
    """True once ``ended`` is set; False after ``seconds``, or when ``stop`` is set first."""
    if stop is None:
        return ended.wait(seconds)
    until = time.monotonic() + seconds
    while not stop.is_set():
        left = until - time.monotonic()
        if ended.wait(max(0.0, min(left, INTERRUPT_SECONDS))):
            return True
        if left <= INTERRUPT_SECONDS:
            return False
    return ended.is_set()


def _feed(channel: paramiko.Channel, pieces: Iterable[bytes]) -> None:
    """Write to a script's standard input; one that has ended reads no more, and its exit code says why."""
    channel.settimeout(SILENCE_SECONDS)
    try:
        for piece in pieces:
            channel.sendall(piece)
        channel.shutdown_write()
        channel.settimeout(None)
    except OSError:
        if not channel.status_event.wait(GRACE_SECONDS):
            raise


class _Tail:
    """Drains one stream in a thread and keeps its last bytes."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self._receive, self._kept, self._count = receive, bytearray(), 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with suppress(OSError):
            while data := self._receive(TAIL_BYTES):
                self._count += len(data)
                self._kept += data
                if len(self._kept) > 2 * TAIL_BYTES:
                    del self._kept[:-TAIL_BYTES]

    def wait(self) -> bytes:
        """The tail, once the stream ended or whoever still holds it open has been silent for a second."""
        until = time.monotonic() + STRAGGLER_SECONDS
        before = -1
        while self._thread.is_alive() and self._count != before and time.monotonic() < until:
            before = self._count
            self._thread.join(1.0)
        return bytes(self._kept[-TAIL_BYTES:])
