"""An Android device, or a Linux board with adbd, over adb.

``agents/adblink.py`` is the connection; only ``agents/adb*.py`` import adbutils. What the device must have: a POSIX
shell, setsid, env, timeout, sha256sum, df, mkdir, mv and rm (toybox has them since Android 8). Nothing is installed.

::

    link: {kind: adb, serial: R58M12ABCDE, serials: ["192.168.7.31:5555"], folder: /data/local/tmp/lockstep}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from agents import adbcrash
from agents.adblink import AdbLink
from agents.adbperformance import FixedPerformance
from agents.apart import Apart
from agents.base import AgentSpec, Completed
from agents.deployment import Pieces
from agents.posix import CONTROL_SECONDS, PosixAgent
from engine.contract.errors import InfraError, StorageFull, TransferError

DEFAULT_FOLDER = "/data/local/tmp/lockstep"
#: Where adbd's user may run programs; they are tried after a folder that the link names. The second is for who comes
#: second where adbd runs as root at times (`adb root`) and as shell after a restart.
CANDIDATES = (DEFAULT_FOLDER, f"{DEFAULT_FOLDER}-2", "/data/lockstep", "/tmp/lockstep")  # noqa: S108 - on the device

# $1 folder, $2 file. Prints where the file really lies, if that is inside the folder and a regular file.
_LOCATE = """
path=$(readlink -f -- "$1/$2") && [ -f "$path" ] || exit 1
case "$path" in "$1"/*) printf '%s\\n' "$path";; *) exit 1;; esac
"""


@dataclass
class AdbAgent(PosixAgent):
    """Drives a device over adb; ``serials`` are the links of one unit, best first."""

    #: The sync service carries four times the bytes of a shell's input, and a round trip more a file.
    apart_bytes = 256 * 1024
    serials: tuple[str, ...] = ()
    folder: str = DEFAULT_FOLDER
    shell: str = ""
    #: An emulated device has no clocks to hold.
    hold_clocks: bool = True

    def __post_init__(self) -> None:
        self._link = AdbLink(self.name, self.serials, self.shell)
        self._performance = FixedPerformance(self._script)
        self._ran = ""

    def _connect(self) -> None:
        self._link.open()
        try:
            self._open_folder(*({self.folder} - {DEFAULT_FOLDER}), own=CANDIDATES)
            if self.hold_clocks:
                self._performance.put_back_left_over(self.home)
        except BaseException:
            self._link.close()
            raise

    def _disconnect(self) -> None:
        self._performance.put_back(self.home)
        self._link.close()

    def _execute(self, argv: Sequence[str], folder: str, env: Mapping[str, str], deadline: float) -> Completed:
        if self.hold_clocks:
            self._performance.ask(self.home)
        self._ran = folder
        return super()._execute(argv, folder, env, deadline)

    def facts(self) -> dict[str, str]:
        """What every device with a shell tells, and whether clocks are held."""
        return {**super().facts(), "fixed_performance": self._performance.state}

    def crash_evidence(self) -> dict[str, str]:
        """Android's log and tombstone of the program that ran last."""
        return adbcrash.collect(self._script, self._path(self._ran))

    def _script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
        return self._link.script(text, *arguments, seconds=seconds, stdin=stdin)

    def _pipe(self, text: str, *arguments: str, source: Iterator[bytes], seconds: float) -> Completed:
        # Not through a buffer: what is there must leave at once, though more is still to come.
        return self._link.script(text, *arguments, seconds=seconds, stdin=Pieces(source))

    def _send_apart(self, waves: Sequence[Iterable[Apart]], folder: str) -> AbstractContextManager[Iterator[str]]:
        return self._link.push_all(waves, self._path(folder))

    def _supervised(self, text: str, *arguments: str, seconds: float) -> Completed:
        return self._link.supervised(text, *arguments, seconds=seconds, stop=self.interrupted)

    def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
        try:
            self._link.push(data, self._path(target), executable)
        except (TransferError, StorageFull):
            with suppress(InfraError):  # the first fault is the one to tell
                self._remove(target)
            raise

    def _receive(self, source: str, limit: int) -> bytes:
        found = self._script(_LOCATE, self._root, source, seconds=CONTROL_SECONDS)
        if found.exit_code:
            raise TransferError(f"{self.name}: no file {source}", device=self.name)
        return self._link.pull(found.stdout.decode(errors="surrogateescape").removesuffix("\n"), limit)


def make(spec: AgentSpec) -> AdbAgent:
    """The agent of an ``adb`` link."""
    link = spec.link
    serials = tuple(dict.fromkeys([str(link["serial"]), *(str(more) for more in link.get("serials") or ())]))
    own_clocks = not link.get("emulated")
    return AdbAgent(spec.name, spec.abi, serials=serials, folder=str(link["folder"]), hold_clocks=own_clocks)
