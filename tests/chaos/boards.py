"""The victim's device where it is no folder of this host: a cable to pull, a power switch, and files to look at."""

from __future__ import annotations

import shutil
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agents.adbdaemon import Endpoint, ask, read_endpoint
from agents.adbserver import AdbServer, stop_server
from farm.inventory import Link
from tests.agents.adbd import AdbDevice, running_adbd
from tests.agents.adblines import left_over, listener
from tests.agents.sshd import Sshd
from tests.chaos.killing import kill, state_of
from tests.chaos.relay import Relay
from tests.chaos.smalldisk import SMALL_DISK_MB, on_a_small_disk
from tests.waiting import PATIENCE, wait_until


def _hello() -> bytes:
    """The first message of adb's protocol."""
    banner = b"host::\0"
    connect = int.from_bytes(b"CNXN", "little")
    return struct.pack("<6I", connect, 1 << 24, 1 << 12, len(banner), sum(banner), connect ^ 0xFFFFFFFF) + banner


HELLO = _hello()


def answer_to(words: bytes, port: int) -> bytes:
    """The first bytes that come back from a loopback port; none when the connection ends."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(words)
        return connection.recv(100)
    return b""


class Board(ABC):
    """A device behind a link. ``chaos`` is where its runner meets the scenario, as the runner names it."""

    chaos: str

    @abstractmethod
    def link(self) -> Link:
        """How the farm reaches it."""

    @property
    @abstractmethod
    def disk(self) -> Path:
        """The disk that Lockstep's folder is on, as this host sees it."""

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Lockstep's folder on it, as this host sees it."""

    @property
    @abstractmethod
    def meeting(self) -> Path:
        """``chaos`` as this host sees it."""

    @abstractmethod
    def cut(self) -> None:
        """Pull the cable."""

    @abstractmethod
    def passes(self) -> bool:
        """Whether bytes come through the cable: asked for over it, and answered by the device."""

    @abstractmethod
    def mend(self) -> None:
        """Plug it in again."""

    @abstractmethod
    def reboot(self) -> None:
        """End every process of the device, and start it again."""

    @property
    @abstractmethod
    def rebooted(self) -> bool:
        """Whether it was started again since the scenario began, as its own processes show."""


@dataclass
class SshBoard(Board):
    """Behind a real sshd, whose programs see this host's files."""

    daemon: Sshd
    relay: Relay
    place: Path
    chaos: str

    @property
    def meeting(self) -> Path:
        return Path(self.chaos)

    @property
    def disk(self) -> Path:
        return self.daemon.outside(self.place)

    @property
    def folder(self) -> Path:
        return self.disk

    def link(self) -> Link:
        where, known = self.daemon.address, self.daemon.folder / "relayed_hosts"
        kind, key = (self.daemon.folder / "host_key.pub").read_text().split()[:2]
        known.write_text(f"[127.0.0.1]:{self.relay.port} {kind} {key}\n")
        return Link(
            kind="ssh",
            host="127.0.0.1",
            port=self.relay.port,
            user=where.user,
            key=str(where.key),
            known_hosts=str(known),
            folder=str(self.place),
        )

    def cut(self) -> None:
        self.relay.cut()

    def passes(self) -> bool:
        return answer_to(b"", self.relay.port).startswith(b"SSH-")

    def mend(self) -> None:
        self.relay.mend()

    def reboot(self) -> None:
        self.daemon.stop()
        self.daemon.start()

    @property
    def rebooted(self) -> bool:
        return (self.daemon.folder / "sshd.log").read_text(errors="replace").count("Server listening on") > 1


@contextmanager
def ssh_board(folder: Path, meeting: Path, small_disk: bool) -> Iterator[SshBoard]:
    """A daemon of its own, behind a relay."""
    place = folder / "board"
    place.mkdir()
    daemon = Sshd(folder / "sshd", prefix=on_a_small_disk(place) if small_disk else ())
    try:
        daemon.start()
        with Relay(daemon.port) as relay:
            yield SshBoard(daemon, relay, place, str(meeting))
    finally:
        daemon.stop()


@dataclass
class AdbBoard(Board):
    """Behind a real adbd, in an emulated device with files, processes and users of its own; ``state`` is the farm's."""

    phone: AdbDevice
    state: Path
    chaos: str = "/data/emulation/chaos"
    _init: int = 0
    _server: int = 0
    _others: ExitStack = field(default_factory=ExitStack, repr=False)

    @property
    def disk(self) -> Path:
        return self.phone.root / "data/local/tmp"

    @property
    def folder(self) -> Path:
        return self.disk / "lockstep"

    @property
    def meeting(self) -> Path:
        return self.phone.root / self.chaos.removeprefix("/")

    def link(self) -> Link:
        return Link(kind="adb", serial=self.phone.serial)

    def cut(self) -> None:
        self.phone.cut()

    def passes(self) -> bool:
        return answer_to(HELLO, self.phone.port)[:4] in (b"AUTH", b"CNXN", b"STLS")

    def mend(self) -> None:
        self.phone.mend()

    def reboot(self) -> None:
        self.phone.reboot()

    @property
    def rebooted(self) -> bool:
        return self.phone.status().init != self._init

    # -- the adb server between the farm and the device -------------------------------------------

    def start_server(self) -> None:
        """As the job before leaves it: running, and nobody uses it."""
        with AdbServer(self.state / "adb") as server:
            self._server = server.endpoint.pid

    def replace_server(self) -> None:
        """What an adb of another version does on a host: end the server that is not its own, and take its place."""
        ours = read_endpoint(self.state / "adb")
        assert ours is not None, "no adb server runs"
        assert ask(ours, "host:kill") is None, "ours was ended by a mere request"
        kill(ours.pid)
        self._others.enter_context(older_server(ours))

    @property
    def server_ended(self) -> bool:
        """Whether the server of the start is gone, and the farm has another one."""
        now = read_endpoint(self.state / "adb")
        return self._server != 0 and state_of(self._server) == "" and now is not None and now.pid != self._server

    # -- one device for many scenarios --------------------------------------------------------------

    def make_ready(self) -> None:
        """Nothing of the scenario before."""
        self.phone.mend()
        self._init = self.phone.status().init
        for path in self.disk.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(self.meeting, ignore_errors=True)
        self.meeting.mkdir()
        self.meeting.chmod(0o777)

    def close(self) -> None:
        """End the servers, and see that the device ended everything that the farm started there."""
        with self._others:
            wait_until(lambda: stop_server(self.state / "adb"))
            wait_until(lambda: not left_over(self.phone), "something of the farm still runs on the device")


@contextmanager
def older_server(ours: Endpoint) -> Iterator[None]:
    """A stand-in for an adb server of 2015 in the place of ``ours``: it tells its version, and knows no device."""
    taken = wait_until(lambda: listener(ours), "the server still listens")

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = taken.accept()
                with connection, suppress(OSError):
                    connection.settimeout(10)
                    asked = connection.recv(1000)
                    connection.sendall(b"OKAY00040020" if b"host:version" in asked else b"FAIL0010unknown service")

    thread = threading.Thread(target=serve, name="older-adb", daemon=True)
    thread.start()
    try:
        yield
    finally:
        taken.shutdown(socket.SHUT_RDWR)
        thread.join()
        taken.close()


@dataclass
class Phones:
    """Emulated adb devices for a session of tests: started when first asked for, and used again."""

    folder: Path
    _open: ExitStack = field(default_factory=ExitStack, repr=False)
    _started: dict[bool, AdbDevice] = field(default_factory=dict)

    def phone(self, small_disk: bool) -> AdbDevice:
        """One that runs; anew if the last scenario left it dead."""
        known = self._started.get(small_disk)
        if known is not None and known.alive:
            return known
        name = "small" if small_disk else "phone"
        device = running_adbd(self.folder / name, name=name, data_mb=SMALL_DISK_MB if small_disk else None)
        self._started[small_disk] = self._open.enter_context(device)
        return self._started[small_disk]

    def __enter__(self) -> Phones:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


@contextmanager
def adb_board(phones: Phones, state: Path, small_disk: bool) -> Iterator[AdbBoard]:
    """One of the session's devices, as new."""
    board = AdbBoard(phones.phone(small_disk), state)
    board.make_ready()
    try:
        yield board
    finally:
        board.close()
