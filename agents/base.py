"""The agent of one device: its protocol, and the life cycle that owns checks, deadlines and clean-up.

A link fills the hooks below; everything a user relies on (a device is proved before it is
used, a transfer is verified, a partial file never has its final name, a call always has a
deadline, nothing is left behind) is done once, here.

Layout of a device's folder::

    blobs/SHA256             models, inputs, golden tensors (kept between jobs)
    bundles/DIGEST/…         one engine build each (kept between jobs)
    jobs/TOKEN.JOB/          the working directory of one call, or what is being brought (removed afterwards)
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from agents.deployment import Blob, BundleFiles, Order, Parcel, Stock, plan, push_slot, remember
from agents.room import CAP_BYTES, RESERVE_BYTES, check_fits, check_free
from agents.tinyelf import tiny_program
from engine.contract.errors import DeviceUnavailable, LeaseLost, StorageFull, TransferDamaged, TransferError

PREFLIGHT_SECONDS = 20.0
#: sha256sum of a large result on a slow board with a slow card.
HASH_SECONDS = 600.0
_HASH = 'sha256sum <"$1"'
#: How often a link that waits for a program looks whether it was interrupted.
INTERRUPT_SECONDS = 0.5


@dataclass(frozen=True)
class AgentSpec:
    """What an agent is made of: ``agents/KIND.py`` has ``make(spec) -> Agent`` for links of that kind.

    ``root`` is the device's folder where it lies on this host; ``link`` holds the link's own fields;
    ``emulators`` maps an emulator's name to its program on this host.
    """

    name: str
    abi: str
    root: Path
    link: Mapping[str, Any]
    emulators: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Completed:
    """How a program on the device ended. ``signal`` is its number when it was killed, else None."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False

    @property
    def signal(self) -> int | None:
        """The signal that ended the program (shells and emulators report 128 + N)."""
        if self.exit_code < 0:
            return -self.exit_code
        return self.exit_code - 128 if 128 < self.exit_code < 160 else None


@dataclass
class Traffic:
    """Bytes that crossed the link, apart by direction; models, inputs and bundles are ``deployed``."""

    deployed: int = 0
    to_device: int = 0
    from_device: int = 0


@dataclass
class Agent(ABC):
    """Drives one device over one link. Use as a context manager; the constructor does no I/O.

    ``token`` is the fencing token of the lease under which it works (0: none), ``cap_bytes`` what blobs and bundles
    may take on the device.
    """

    name: str
    abi: str
    traffic: Traffic = field(default_factory=Traffic)
    #: Set from another thread: the program that runs must end, and no other may start.
    interrupted: threading.Event = field(init=False, default_factory=threading.Event)
    token: int = field(default=0, kw_only=True)
    cap_bytes: int = field(default=CAP_BYTES, kw_only=True)

    # -- hooks: what a link must fill ---------------------------------------------------------

    @abstractmethod
    def _connect(self) -> None:
        """Reach the device and make its folder; ``DeviceUnavailable`` when that fails."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Let go of the link; never raises."""

    @abstractmethod
    def _execute(self, argv: Sequence[str], folder: str, env: Mapping[str, str], deadline: float) -> Completed:
        """Run a program in ``folder`` (relative); end it with all its children on the deadline, or within about a
        second once ``interrupted`` is set."""

    @abstractmethod
    def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
        """Write one file under ``target`` (relative), which is not yet its final name."""

    @abstractmethod
    def _receive(self, source: str, limit: int) -> bytes:
        """The bytes of one file; ``TransferError`` when absent or larger than ``limit``."""

    @abstractmethod
    def _stock(self, order: Order) -> Stock:
        """What the device lacks of ``order``: one round trip.

        It clears away what attempts with a smaller token left, marks as used what is there and, when something is
        missing, drops the least recently used blobs and bundles beyond ``cap_bytes`` or the free room.
        """

    @abstractmethod
    def _make_room(self) -> None:
        """As ``_stock`` does for an order of nothing: until the reserve is free, or there is no more to drop."""

    @abstractmethod
    def _place(self, parcel: Parcel, tar: bool, guard: Callable[[], None]) -> None:
        """Bring a parcel: staged, verified there, then visible at once. TransferError when something arrives changed.

        ``guard`` is called before each piece that travels.
        """

    @abstractmethod
    def _remove(self, target: str) -> None:
        """Delete a file or folder if it exists."""

    @abstractmethod
    def _free_bytes(self) -> int:
        """Room left where the bundle will live."""

    @abstractmethod
    def _script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
        """Run a constant POSIX shell script with ``arguments`` as ``$1 $2 …``, quoted here and nowhere else.

        ``stdin`` is all that it reads. Raises DeviceUnavailable when the link is lost or ``seconds`` have passed.
        """

    @property
    @abstractmethod
    def home(self) -> str:
        """The device's folder as its own programs see it: absolute."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """What this link can tell of the device's fingerprint: flat, text to text."""

    # -- life cycle ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()

    def preflight(self) -> None:
        """Prove that the device is usable: a fresh nonce comes back from a program run where bundles live."""
        nonce = secrets.token_hex(8)
        program = tiny_program(self.abi, nonce)
        free, done = self._prove(program, self._job_folder("preflight"))
        if free < RESERVE_BYTES:
            self._make_room()
            free, done = self._prove(program, self._job_folder("preflight"))
            check_free(self.name, free, RESERVE_BYTES)
        if done.stdout.decode(errors="replace").strip() != nonce:
            raise DeviceUnavailable(
                f"{self.name}: a tiny {self.abi} program does not run there "
                f"(exit code {done.exit_code}, {done.stderr.decode(errors='replace').strip()[-200:] or 'no message'})",
                hint="see that its folder allows execution; `lockstep doctor` finds the emulator of an emulated one",
                device=self.name,
                exit_code=done.exit_code,
            )

    def _prove(self, program: bytes, folder: str) -> tuple[int, Completed]:
        """Room left in bytes, and how ``program`` ended in ``folder``, which is removed."""
        free = self._free_bytes()
        if free < RESERVE_BYTES:
            return free, Completed(1, b"", b"", 0.0)
        try:
            self._send(program, f"{folder}/probe", executable=True)
            return free, self._execute(["./probe"], folder, {}, PREFLIGHT_SECONDS)
        finally:
            self._remove(folder)

    def deploy(self, blobs: Iterable[Blob], guard: Callable[[], None], bundle: BundleFiles | None = None) -> None:
        """Bring what the device lacks of ``blobs`` (to ``blobs/SHA256``) and ``bundle`` (to ``bundles/DIGEST``).

        One round trip when nothing is missing. Raises StorageFull before anything travels, TransferError when
        something arrives changed, and whatever ``guard`` raises.
        """
        guard()
        order = Order.of(blobs, bundle)
        stock = self._stock(order)
        if stock.missing:
            check_fits(self.name, order, stock, self.cap_bytes, self._reserve(order))
            with push_slot(guard):
                self._bring(order, stock, guard)
        if bundle is not None:
            remember(bundle)

    def _reserve(self, order: Order) -> int:
        """Room that must be left beside what ``order`` lacks: for the device itself, and for the way it travels."""
        del order
        return RESERVE_BYTES

    def _bring(self, order: Order, stock: Stock, guard: Callable[[], None]) -> None:
        parcel = plan(order, stock)
        try:
            self._place(parcel, stock.tar, guard)
        except TransferError:
            if not parcel.base:
                raise
            # The older bundle may be damaged: it goes, and everything travels.
            self._remove(f"bundles/{parcel.base}")
            parcel = plan(order, replace(stock, bundles=()))
            self._place(parcel, stock.tar, guard)
        self.traffic.deployed += parcel.size

    def begin_job(self, job: str) -> str:
        """The name of a fresh working directory for one call."""
        return self._job_folder(job)

    def _job_folder(self, job: str) -> str:
        """A folder of this holder: the token in its name tells the next holder that it is over."""
        return f"jobs/{self.token}.{job}-{secrets.token_hex(4)}"

    def send_text(self, text: str, target: str) -> None:
        """Write a small file that belongs to one call."""
        data = text.encode()
        self._send(data, target, executable=False)
        self.traffic.to_device += len(data)

    def send_blobs(self, blobs: Iterable[Blob], guard: Callable[[], None]) -> None:
        """Bring blobs that belong to one case (golden tensors): counted as traffic of the case."""
        before = self.traffic.deployed
        self.deploy(blobs, guard)
        self.traffic.to_device += self.traffic.deployed - before
        self.traffic.deployed = before

    def fetch(self, source: str, limit: int) -> bytes:
        """Bytes of one result file, at most ``limit``; ``TransferDamaged`` when they differ from those there."""
        data = self._receive(source, limit)
        done = self._script(_HASH, f"{self.home}/{source}", seconds=HASH_SECONDS)
        there, here = done.stdout.decode(errors="replace").split(" ")[0], hashlib.sha256(data).hexdigest()
        if there != here:
            raise TransferDamaged(
                f"{self.name}: {PurePosixPath(source).name} arrived with sha256 {here[:12]}…, "
                f"there it has {there[:12] or 'none'}…",
                hint="the link or the storage is faulty; `lockstep devices --probe`, then try again",
                device=self.name,
            )
        self.traffic.from_device += len(data)
        return data

    def run_script(self, text: str, *arguments: str, seconds: float) -> Completed:
        """Run a constant POSIX shell script with ``arguments`` as ``$1 $2 …``; see ``agents/readings.py``."""
        return self._script(text, *arguments, seconds=seconds)

    def run(self, argv: Sequence[str], folder: str, env: Mapping[str, str], seconds: float) -> Completed:
        """Run the runner in ``folder`` with a deadline; ``LeaseLost`` when it was interrupted."""
        self._wanted()
        done = self._execute(argv, folder, env, seconds)
        self._wanted()
        return done

    def interrupt(self) -> None:
        """End the program that runs on the device; may be called from any thread, and does not wait."""
        self.interrupted.set()

    def _wanted(self) -> None:
        if self.interrupted.is_set():
            raise LeaseLost(f"{self.name}: the job was taken away while it ran", device=self.name)

    def end_job(self, folder: str) -> None:
        """Remove what one call left behind."""
        self._remove(folder)

    def crash_evidence(self) -> dict[str, str]:
        """What the device itself kept of the program that crashed last: text by name, nothing where a link knows none.

        Never raises; each text is capped.
        """
        return {}

    def still_answers(self) -> bool:
        """After a fault: is it the device or the engine? A device that passes preflight again is sound."""
        try:
            self.preflight()
        except (DeviceUnavailable, StorageFull, TransferError):
            return False
        return True
