"""One adb link: commands and files with deadlines, every fault told with its reason; adbutils' errors end here.

All calls go to our own server, each over a stream of its own. ``agents/adbreach.py`` chooses the serial and
``agents/adbwatch.py`` notices a server that is another one, or a device that left for a moment.
"""

from __future__ import annotations

import io
import secrets
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from adbutils import AdbError

from agents import adbpush, adbshell, adbsync
from agents.adbanswer import TAIL_BYTES, UnknownEnd
from agents.adblist import LOST, Listed, next_step
from agents.adbpush import NotWritten, push_all
from agents.adbreach import Route, Unit, reach
from agents.adbserver import AdbServer
from agents.adbshell import Source
from agents.adbwatch import Watch
from agents.apart import Apart
from agents.base import Completed
from agents.deployment import CHUNK_BYTES
from engine.contract.errors import AdbServerReplaced, DeviceUnavailable, InfraError, StorageFull, TransferError

#: How long our server may take to open a stream to a device.
OPEN_SECONDS = 15.0


@dataclass
class AdbLink:
    """A connection to one unit; ``device`` is its name in messages, ``serials`` its links, best first.

    The constructor does no I/O. ``shell`` forces a way to run commands: ``v2``, or ``exec`` and ``pty`` as old devices
    have it; without it the device's own features decide.
    """

    device: str
    serials: tuple[str, ...]
    shell: str = ""
    server: AdbServer = field(default_factory=AdbServer, repr=False)
    route: Route = field(init=False, default=Route("", "", ""))
    _watch: Watch | None = field(init=False, default=None, repr=False)
    _unit: Unit | None = field(init=False, default=None, repr=False)
    _lost: DeviceUnavailable | None = field(init=False, default=None, repr=False)

    def open(self) -> None:
        """Reach the unit. Raises DeviceUnavailable with the state of each serial and what to do about it."""
        self._lost = None
        self.server.__enter__()
        try:
            self.route = reach(self.server, self.device, self.serials, self.shell)
            self._unit = Unit.claim(self.server.folder, self.route, self.device)
            self._watch = Watch(self.server.client(), self.route.serial)
        except (OSError, EOFError, AdbError) as error:
            self.close()
            raise self._gone(_reason(error)) from error
        except DeviceUnavailable as error:
            self.close()
            raise self._replaced() or error from error.__cause__
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of it; never raises."""
        watch, self._watch = self._watch, None
        unit, self._unit = self._unit, None
        if watch is not None:
            watch.close()
        if unit is not None:
            unit.close()
        self.server.__exit__()

    # -- commands ---------------------------------------------------------------------------------

    def script(self, text: str, *arguments: str, seconds: float, stdin: bytes | Source = b"") -> Completed:
        """Run a constant POSIX shell script with ``arguments``; DeviceUnavailable when it does not end in time."""
        stream = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        done = self._run(text, arguments, seconds, stream, adbshell.ANSWER_BYTES)
        if done.timed_out:
            raise DeviceUnavailable(
                f"{self.device}: no answer within {seconds:.0f} s",
                hint="is the device overloaded or its storage failing? `lockstep devices --probe`, then try again",
                device=self.device,
            )
        return done

    def supervised(self, text: str, *arguments: str, seconds: float, stop: threading.Event) -> Completed:
        """Run a script that ends its program when its standard input ends: after ``seconds``, or at ``stop``."""
        return self._run(text, arguments, seconds, None, TAIL_BYTES, stop)

    def _run(
        self,
        text: str,
        arguments: tuple[str, ...],
        seconds: float,
        stdin: Source | None,
        keep: int,
        stop: threading.Event | None = None,
    ) -> Completed:
        given = ""
        if self.route.shell != "v2" and stdin is not None:
            given = self._leave(adbshell.whole(stdin))
        if not adbshell.fits(self.route.shell, given, text, arguments):
            text, arguments = adbshell.FROM_FILE, (self._leave(adbshell.as_file(text, arguments)),)
        return adbshell.run(
            self.route.shell,
            self._stream,
            text,
            arguments,
            seconds=seconds,
            keep=keep,
            stdin=stdin,
            given=given,
            stop=stop,
        )

    def _leave(self, data: bytes) -> str:
        """A file on the device for a script to read and remove: a plain stream cannot tell the end of its input."""
        path = f"{self.route.scratch}/.lockstep-{secrets.token_hex(8)}"
        self.push(data, path, executable=False)
        return path

    # -- files --------------------------------------------------------------------------------------

    def push(self, data: Path | bytes, path: str, executable: bool) -> None:
        """Write one file. Raises what ``push_all`` raises."""
        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        folder, _, name = path.rpartition("/")
        with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as stream:
            pieces = iter(lambda: stream.read(CHUNK_BYTES), b"")
            with self.push_all([[Apart(name, pieces, size, executable)]], folder) as names:
                for _ in names:
                    pass

    @contextmanager
    def push_all(self, waves: Sequence[Iterable[Apart]], folder: str) -> Iterator[Iterator[str]]:
        """Write files below ``folder`` while the block runs; it gets each name once the device has the file.

        Raises TransferError with the device's reason, StorageFull when that is lack of room, DeviceUnavailable when
        the link is gone, and whatever the pieces raise.
        """
        try:
            with push_all(lambda: self._stream("sync:"), waves, folder) as names:
                yield names
        except NotWritten as error:
            raise self._refused(error.path, error.reason) from error

    def _refused(self, path: str, reason: str) -> InfraError:
        words = f"{self.device}: cannot write {path}: {reason}"
        if "o space left" in reason or "uota exceeded" in reason:
            return StorageFull(words, hint="free room on the device", device=self.device)
        return TransferError(words, hint="is its folder writable, and is there room?", device=self.device)

    def pull(self, path: str, limit: int) -> bytes:
        """The bytes of one file; TransferError when absent or larger than ``limit``."""
        with self._stream("sync:") as connection:
            line = adbsync.Bounded(connection, adbpush.SILENCE_SECONDS)
            line.allow(adbpush.seconds_for(limit))
            try:
                return adbsync.pull(line, path, limit)
            except adbsync.Refused as error:
                raise TransferError(f"{self.device}: cannot read {path}: {error}", device=self.device) from error
            except adbsync.TooLarge as error:
                raise TransferError(
                    f"{self.device}: {path} is larger than {limit} bytes", device=self.device
                ) from error

    # -- one stream -----------------------------------------------------------------------------------

    @contextmanager
    def _stream(self, service: str) -> Iterator[socket.socket]:
        """A stream to one service of the device; every fault of the link is a DeviceUnavailable."""
        self._check()
        try:
            with self.server.stream(self.route.serial, service, OPEN_SECONDS) as stream:
                yield stream
        except UnknownEnd as error:
            raise self._gone("it does not tell how a command ended") from error
        except (OSError, EOFError, AdbError, ValueError) as error:
            raise self._gone(_reason(error)) from error
        self._check()

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost
        fault = self._watch.fault() if self._watch is not None else "it is not connected"
        if fault:
            raise self._gone(fault)

    def _gone(self, reason: str) -> DeviceUnavailable:
        """What became of the link; one that failed once is not used again, and says the same again."""
        self._lost = self._replaced() or self._left(reason)
        return self._lost

    def _replaced(self) -> AdbServerReplaced | None:
        """What is to be said when our server is not there any more, or another one in its place."""
        other = self.server.replaced_by()
        if other is None:
            return None
        return AdbServerReplaced(
            f"{self.device}: the adb server was replaced in the middle: {self.server.endpoint.version} before, "
            f"{other} now; nothing of this attempt is kept",
            hint="did another adb on this host end it? The attempt is repeated",
            device=self.device,
        )

    def _left(self, reason: str) -> DeviceUnavailable:
        serial, listed = self.route.serial, self._now()
        words = f"{self.device}: the adb link {serial} was lost: {reason}; now it is {listed.state}"
        if listed.usable:
            words += " in the list, which may be stale"
        hint = next_step(Listed(serial, "offline") if listed.usable else listed)
        return DeviceUnavailable(words, hint=hint, device=self.device)

    def _now(self) -> Listed:
        try:
            known = {listed.serial: listed for listed in self.server.devices()}
        except (OSError, EOFError, AdbError):
            known = {}
        return known.get(self.route.serial, Listed(self.route.serial, LOST))


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError) or "timeout" in str(error):
        return "no answer in time"
    if isinstance(error, EOFError) or not str(error):
        return "it was cut"
    return str(getattr(error, "strerror", None) or error)[:200]
