"""What every device with a POSIX shell has in common: files, facts and supervised programs as constant scripts.

A link that derives from this fills ``_connect``, ``_disconnect``, ``_send``, ``_receive`` and the two ways to run a
script, ``_script`` and ``_supervised``. Scripts get their values as arguments, never as text inside the script, and
keep to what dash, busybox sh and mksh with toybox (Android) all understand.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agents.base import Agent, Completed
from agents.probes.fingerprint import Fingerprint
from agents.readings import Place, take
from engine.contract.errors import ConfigError, DeviceUnavailable, TransferError

CONTROL_SECONDS = 30.0
#: sha256sum of a large model on a slow board with a slow card.
HASH_SECONDS = 600.0

_MAKE_FOLDER = 'mkdir -p -- "$1" && cd -- "$1" && mkdir -p blobs bundles jobs && pwd -P'
_MAKE_PARENT = 'mkdir -p -- "$1"'
_EXISTING = 'cd -- "$1" || exit 1; while IFS= read -r name; do [ -f "$name" ] && printf "%s\\n" "$name"; done; exit 0'
_HASH = 'sha256sum <"$1"'
_RENAME = 'mv -f -- "$1" "$2"'
_REMOVE = 'rm -rf -- "$1"'
_FREE = 'df -Pk -- "$1"'

# The program runs in a session of its own. Its supervisor ends that session when the program ends (children it left),
# when the link is closed or dies (standard input ends) and, should the line be cut without a word, when the time is
# up. Nothing it starts may hold standard input open when it ends: adbd tells no exit code before. $1 folder,
# $2 seconds, then the program with its environment as arguments of env. Android's own settings stay: its linker and
# drivers look there.
_SUPERVISE = """
mkdir -p -- "$1" && cd -- "$1" || exit 126
limit=$2; shift 2
ulimit -c 0; ulimit -f 4194304
exec 3<&0
setsid env -i "PATH=$PATH" "HOME=$PWD" "TMPDIR=$PWD" LANG=C.UTF-8 \\
    ${ANDROID_ROOT:+"ANDROID_ROOT=$ANDROID_ROOT"} ${ANDROID_DATA:+"ANDROID_DATA=$ANDROID_DATA"} \\
    "$@" 3<&- </dev/null &
program=$!
exec >/dev/null 2>&1
{ while read -r line; do :; done; kill -s KILL -- "-$program"; } <&3 &
watcher=$!
{ nap=; trap '[ -z "$nap" ] || kill "$nap"; exit' TERM; sleep "$limit" & nap=$!; wait "$nap"
  kill -s KILL -- "-$program"; } 3<&- </dev/null &
clock=$!
wait "$program"
status=$?
kill "$watcher" "$clock"
kill -s KILL -- "-$program"
exit "$status"
"""


@dataclass
class PosixAgent(Agent):
    """An agent whose device has a POSIX shell; ``_root`` is the device's folder, absolute, once connected."""

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

    # -- the device's folder --------------------------------------------------------------------

    def _open_folder(self, folder: str) -> None:
        """Make ``folder`` and what it holds; from then on ``_root`` is known. For ``_connect``."""
        done = self._script(_MAKE_FOLDER, folder, seconds=CONTROL_SECONDS)
        if done.exit_code:
            raise DeviceUnavailable(
                f"{self.name}: cannot make its folder {folder}: {words_of(done.stderr)}",
                hint="name a folder that its user may write to: `folder` of the link",
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
        return self._supervised(_SUPERVISE, self._path(folder), limit, *settings, *argv, seconds=deadline)

    def _hash(self, target: str) -> str:
        done = self._script(_HASH, self._path(target), seconds=HASH_SECONDS)
        found = re.search(rb"([0-9a-f]{64})\s+-\s*$", done.stdout)
        if done.exit_code or found is None:
            raise TransferError(
                f"{self.name}: no sha256 of {target}: {words_of(done.stderr)}",
                hint="does the device have sha256sum, and is its storage sound?",
                device=self.name,
            )
        return found[1].decode()

    def _existing(self, targets: Sequence[str]) -> set[str]:
        asked = "".join(f"{target}\n" for target in targets if "\n" not in target)
        done = self._script(_EXISTING, self._root, seconds=CONTROL_SECONDS, stdin=asked.encode())
        return set(done.stdout.decode(errors="replace").splitlines()) & set(targets)

    def _rename(self, source: str, target: str) -> None:
        self._checked(_RENAME, f"rename {source}", self._path(source), self._path(target))

    def _remove(self, target: str) -> None:
        self._made = {made for made in self._made if made != target and not made.startswith(f"{target}/")}
        self._checked(_REMOVE, f"remove {target}", self._path(target))

    def _free_bytes(self) -> int:
        answer = self._checked(_FREE, "ask for free room", self._root)
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
                hint="`lockstep doctor`, then try again",
                device=self.name,
            )
        return found.facts()

    def _checked(self, text: str, doing: str, *arguments: str) -> str:
        """What a script printed; DeviceUnavailable with the device's own words when it failed."""
        done = self._script(text, *arguments, seconds=CONTROL_SECONDS)
        if done.exit_code:
            raise DeviceUnavailable(
                f"{self.name}: cannot {doing}: {words_of(done.stderr)}",
                hint="is its folder writable and its storage sound? `lockstep doctor`",
                device=self.name,
            )
        return done.stdout.decode(errors="replace")


def words_of(stderr: bytes) -> str:
    """The end of what a command complained, for a message."""
    return stderr.decode(errors="replace").strip()[-200:] or "no message"
