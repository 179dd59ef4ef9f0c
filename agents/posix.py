"""What every device with a POSIX shell has in common: files, facts and supervised programs as constant scripts.

A link that derives from this fills ``_connect``, ``_disconnect``, ``_send``, ``_receive`` and the two ways to run a
script, ``_script`` and ``_supervised``. Scripts get their values as arguments, never as text inside the script, and
keep to what dash, busybox sh and mksh with toybox (Android) all understand.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import ClassVar

from agents.apart import Apart, Trip, by_size
from agents.base import PREFLIGHT_SECONDS, Agent, Completed
from agents.deployment import Order, Parcel, Stock, tar_bytes, tar_stream
from agents.posixfolder import MAKE_FOLDER
from agents.posixstock import CLEAR, PLACE, PLACE_APART, STOCK, first_wrong, read_stock
from agents.probes.fingerprint import Fingerprint
from agents.probes.peak import RECORD, SAMPLER
from agents.readings import Place, take
from agents.room import RESERVE_BYTES
from engine.contract.errors import ConfigError, DeviceUnavailable, InfraError, StorageFull, TransferError

CONTROL_SECONDS = 30.0
#: A link (bytes a second), copying and hashing on a device, and making files there (files a second) are broken below.
SLOWEST_LINK = 200_000
SLOWEST_STORAGE = 2_000_000
SLOWEST_FILES = 20
_WRONG_BYTES = 4

_MAKE_PARENT = 'mkdir -p -- "$1"'
_REMOVE = 'rm -rf -- "$1"'
_FREE = 'df -Pk -- "$1"'
# $1 the device's folder, $2 a folder of our own in it. Standard input is a program: prints the room left, an empty
# line, and what the program says.
_PROVE = """
cd -- "$1" && df -Pk . && echo || exit 125
mkdir -p -- "$2" && cat >"$2/probe" && chmod 755 -- "$2/probe" && "$2/probe" 3>&-
status=$?
rm -rf -- "$2"
exit "$status"
"""

# The program runs in a session of its own. Its supervisor ends that session when the program ends (children it left),
# when the link is closed or dies (standard input ends) and, should the line be cut without a word, when the time is
# up. Nothing may hold standard input open when it ends, as adbd tells no exit code before: its helpers are killed
# outright, for a shell just forked loses gentler signals. The watcher ends the clock, too: adbd hangs up on a
# supervisor whose line was cut, and a clock left alone would one day end whoever has its program's number then.
# $1 folder, $2 seconds, $3 where its memory is noted, then the program with its environment as arguments of env.
# Android's own settings stay: its linker and drivers look there.
_SUPERVISE = (
    SAMPLER
    + """
mkdir -p -- "$1" && cd -- "$1" || exit 126
limit=$2 record=$3; shift 3
ulimit -c 0; ulimit -f 4194304
exec 3<&0
setsid env -i "PATH=$PATH" "HOME=$PWD" "TMPDIR=$PWD" LANG=C.UTF-8 \\
    ${ANDROID_ROOT:+"ANDROID_ROOT=$ANDROID_ROOT"} ${ANDROID_DATA:+"ANDROID_DATA=$ANDROID_DATA"} \\
    "$@" 3<&- </dev/null &
program=$!
exec >/dev/null 2>&1
setsid sh -c 'sleep "$1"; kill -s KILL -- "-$2"' lockstep "$limit" "$program" 3<&- </dev/null &
clock=$!
{ while read -r line; do :; done; kill -s KILL -- "-$program" "$clock" "-$clock"; } <&3 &
watcher=$!
watch_memory "$record" 3<&- </dev/null &
sampler=$!
wait "$program"
status=$?
kill -s KILL -- "$watcher" "$clock" "-$clock" "$sampler" "-$program"
exit "$status"
"""
)


def placing_seconds(travels: int, whole: int, files: int) -> float:
    """How long a deployment may take: bytes that travel, bytes that are there afterwards, files among them."""
    return CONTROL_SECONDS + travels / SLOWEST_LINK + whole / SLOWEST_STORAGE + files / SLOWEST_FILES


@dataclass
class PosixAgent(Agent):
    """An agent whose device has a POSIX shell; ``_root`` is the device's folder, absolute, once connected."""

    #: Where files travel faster than a script's input: from this size they go by themselves, and so does a tar.
    apart_bytes: ClassVar[int | None] = None
    _root: str = field(init=False, default="")
    _made: set[str] = field(init=False, default_factory=set)

    # -- hooks: what a link must fill ---------------------------------------------------------

    @abstractmethod
    def _supervised(self, text: str, *arguments: str, seconds: float) -> Completed:
        """Run a script that ends its program when its standard input ends, and keep that open for ``seconds``.

        After ``seconds``, or once ``interrupted`` is set, standard input is closed and the answer has ``timed_out``;
        a link that dies closes it as well. Both streams are drained all the time and their tails kept.
        DeviceUnavailable when the link is lost.
        """

    def _pipe(self, text: str, *arguments: str, source: Iterator[bytes], seconds: float) -> Completed:
        """As ``_script``, with its standard input in pieces. What ``source`` raises ends the script and is raised.

        A link that can send while it reads should; this holds all pieces in memory.
        """
        return self._script(text, *arguments, seconds=seconds, stdin=b"".join(source))

    def _send_apart(self, waves: Sequence[Iterable[Apart]], folder: str) -> AbstractContextManager[Iterator[str]]:
        """Bring files to ``folder``, one wave after the other, while the block runs. For links with ``apart_bytes``.

        It gets each name once the file is whole there.
        """
        raise NotImplementedError

    # -- the device's folder --------------------------------------------------------------------

    def _open_folder(self, *named: str, own: Sequence[str] = ()) -> None:
        """Make the first folder where programs may run; from then on ``_root`` is known. For ``_connect``.

        Nobody named the ``own`` ones, so they must belong to our user. One round trip.
        """
        done = self._script(MAKE_FOLDER, str(len(named)), *named, *own, seconds=CONTROL_SECONDS)
        if done.exit_code:
            words = "; ".join(words_of(done.stderr, 1000).splitlines())
            raise DeviceUnavailable(
                f"{self.name}: cannot make its folder {words}",
                hint="name another folder, one that its user may write to and run programs in: `folder` of the link",
                device=self.name,
            )
        self._root = done.stdout.decode(errors="surrogateescape").removesuffix("\n")
        self._made = {"blobs", "bundles", "jobs"}

    @property
    def home(self) -> str:
        """The device's folder, known once connected."""
        return self._root

    def _path(self, relative: str) -> str:
        return f"{self._root}/{relative}"

    def _make_parent(self, target: str) -> None:
        """The folder that ``target`` will lie in; costs a round trip only the first time. For ``_send``."""
        parent = str(PurePosixPath(target).parent)
        if parent not in self._made:
            self._checked(_MAKE_PARENT, f"make {parent}", self._path(parent))
            self._made.add(parent)

    # -- what the base asks -----------------------------------------------------------------------

    def _execute(self, argv: Sequence[str], folder: str, env: Mapping[str, str], deadline: float) -> Completed:
        wrong = [key for key in env if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key)]
        if wrong:
            raise ConfigError(f"{wrong[0]!r} cannot be the name of an environment variable", hint="mend `env`")
        settings = [f"{key}={value}" for key, value in env.items()]
        limit = str(int(deadline) + 10)
        return self._supervised(
            _SUPERVISE, self._path(folder), limit, self._path(RECORD), *settings, *argv, seconds=deadline
        )

    def _stock(self, order: Order) -> Stock:
        return self._ask_stock(order.sizes(), self._reserve(order))

    def _make_room(self) -> None:
        self._ask_stock({}, RESERVE_BYTES, "1")

    def _ask_stock(self, sizes: Mapping[str, int], reserve: int, room: str = "") -> Stock:
        blobs = {name: str(size) for name, size in sizes.items() if name.startswith("blobs/")}
        asked = "".join(f"{_kib(size)} {name} {blobs.get(name, '')}\n" for name, size in sizes.items())
        limits = (str(self.token), str(_kib(self.cap_bytes)), str(_kib(reserve)), room)
        done = self._script(STOCK, self._root, *limits, seconds=CONTROL_SECONDS, stdin=asked.encode())
        stock = read_stock(done.stdout.decode(errors="replace"), list(sizes))
        if done.exit_code or stock is None:
            raise DeviceUnavailable(
                f"{self.name}: cannot tell what it has: {words_of(done.stderr)}",
                hint="is its folder there and its storage sound? `lockstep devices --probe`",
                device=self.name,
            )
        return stock

    def _place(self, parcel: Parcel, tar: bool, guard: Callable[[], None]) -> None:
        seconds = placing_seconds(parcel.size, parcel.whole, len(parcel.contents))
        with self._staging() as staging:
            folder = f"jobs/{staging}"
            bundle = (parcel.digest, parcel.base, str(_kib(parcel.bundle_bytes)))
            values = (self._root, staging, parcel.tree, *bundle, "tar" if tar else "", *parcel.dropped)
            if self.apart_bytes is not None and parcel.size >= self.apart_bytes:
                trip = Trip.of(parcel, staging, self.apart_bytes, guard)
                with self._send_apart((trip.large, trip.small), "jobs") as arrived:
                    done = self._pipe(PLACE_APART, *values, source=trip.words(arrived), seconds=seconds)
            else:
                source = tar_stream(parcel.files, guard) if tar else self._one_by_one(parcel, folder, guard)
                done = self._pipe(PLACE, *values, source=source, seconds=seconds)
            if done.exit_code:
                raise self._not_placed(parcel, done)

    @contextmanager
    def _staging(self) -> Iterator[str]:
        """The name of a fresh folder below ``jobs``; when the block fails nothing of it stays, if the link lives."""
        name = self._job_folder("deploy").removeprefix("jobs/")
        try:
            yield name
        except BaseException:
            with suppress(InfraError):  # the first fault is the one to tell
                self._script(CLEAR, self._root, name, seconds=CONTROL_SECONDS)
            raise

    def _one_by_one(self, parcel: Parcel, folder: str, guard: Callable[[], None]) -> Iterator[bytes]:
        """Send each file now; nothing is left for the script to read."""
        for name, blob in parcel.files.items():
            guard()
            self._send(blob.path, f"{folder}/{name}", blob.executable)
        return iter(())

    def _reserve(self, order: Order) -> int:
        """A tar that travels as a file, beside an older bundle, takes room beside what it holds."""
        if self.apart_bytes is None:
            return RESERVE_BYTES
        bundled = order.bundle.files if order.bundle is not None else {}
        return RESERVE_BYTES + tar_bytes(by_size({**order.blobs, **bundled}, self.apart_bytes)[1])

    def _not_placed(self, parcel: Parcel, done: Completed) -> InfraError:
        words = words_of(done.stderr)
        if done.exit_code != _WRONG_BYTES:
            if "o space left" in words or "uota exceeded" in words:
                return StorageFull(f"{self.name}: {words}", hint="free room on the device", device=self.name)
            hint = "is its folder writable and its storage sound?"
            return TransferError(f"{self.name}: files cannot be unpacked: {words}", hint=hint, device=self.name)
        wrong = first_wrong(done.stdout.decode(errors="replace"), parcel.contents)
        name, there, here = wrong or ("a file", "", "")
        name = PurePosixPath(name).name
        return TransferError(
            f"{self.name}: {name} arrived with sha256 {there[:12]}…, sent was {here[:12]}…",
            hint="is the link or storage faulty, or did the file change? `lockstep devices --probe`, then try again",
            device=self.name,
        )

    def _remove(self, target: str) -> None:
        self._made = {made for made in self._made if made != target and not made.startswith(f"{target}/")}
        self._checked(_REMOVE, f"remove {target}", self._path(target))

    def _prove(self, program: bytes, folder: str) -> tuple[int, Completed]:
        """As every agent does it, in one round trip."""
        try:
            done = self._script(_PROVE, self._root, folder, seconds=PREFLIGHT_SECONDS, stdin=program)
        except StorageFull:  # an old shell's input travels as a file
            return 0, Completed(1, b"", b"", 0.0)
        room, _, said = done.stdout.replace(b"\r\n", b"\n").partition(b"\n\n")
        return self._room(room.decode(errors="replace")), replace(done, stdout=said)

    def _free_bytes(self) -> int:
        return self._room(self._checked(_FREE, "ask for free room", self._root))

    def _room(self, answer: str) -> int:
        found = re.search(r"\s(\d+)\s+(?:\d+%|-)\s[^\n]*\s*$", answer)
        if found is None:
            raise DeviceUnavailable(f"{self.name}: df does not tell the free room", device=self.name)
        return int(found[1]) * 1024

    def facts(self) -> dict[str, str]:
        """CPU, kernel, OS build and drivers, read on the device in one round trip."""
        found = take(self.run_script, ["fingerprint"], Place(self.home))["fingerprint"]
        if not isinstance(found, Fingerprint):
            raise DeviceUnavailable(
                f"{self.name}: cannot read its facts: {found}",
                hint="`lockstep devices --probe`, then try again",
                device=self.name,
            )
        return found.facts()

    def _checked(self, text: str, doing: str, *arguments: str) -> str:
        """What a script printed; DeviceUnavailable with the device's own words when it failed."""
        done = self._script(text, *arguments, seconds=CONTROL_SECONDS)
        if done.exit_code:
            raise DeviceUnavailable(
                f"{self.name}: cannot {doing}: {words_of(done.stderr)}",
                hint="is its folder writable and its storage sound? `lockstep devices --probe`",
                device=self.name,
            )
        return done.stdout.decode(errors="replace")


def _kib(size: int) -> int:
    return -(-size // 1024)


def words_of(stderr: bytes, most: int = 200) -> str:
    """The end of what a command complained, for a message."""
    return stderr.decode(errors="replace").strip()[-most:] or "no message"
