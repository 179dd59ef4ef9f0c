"""A Linux device behind a real ssh daemon.

``agents/sshlink.py`` is the connection, ``agents/sshlogin.py`` how it begins; only these two import paramiko.

What the device must have: a POSIX shell, setsid, env, timeout, sha256sum, df, mkdir and rm (coreutils, busybox or
toybox), and sftp. Nothing is installed there.

::

    link: {kind: ssh, host: pi.lab, user: pi, key: ~/.ssh/lab, folder: lockstep}
"""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agents.base import Agent, AgentSpec, Completed
from agents.probes import linux
from agents.sshlink import SshLink
from agents.sshlogin import Address
from engine.contract.errors import ConfigError, DeviceUnavailable, TransferError

CONTROL_SECONDS = 30.0
#: sha256sum of a large model on a slow board with a slow card.
HASH_SECONDS = 600.0
#: What every sftp server answers in one piece.
REQUEST_BYTES = 32 * 1024
#: What paramiko keeps on its way in one download; with its default a download is ten times slower.
PREFETCH_REQUESTS = 64

_MAKE_FOLDER = 'mkdir -p -- "$1" && cd -- "$1" && mkdir -p blobs bundles jobs && pwd -P'
_EXISTING = 'cd -- "$1" || exit 1; while IFS= read -r name; do [ -f "$name" ] && printf "%s\\n" "$name"; done; exit 0'

# The program runs in a session of its own. Its supervisor ends that session when the program ends (children it left),
# when the link is closed or dies (standard input ends) and, should the line be cut without a word, when the time is
# up. $1 folder, $2 seconds, then the program with its environment as arguments of env.
_SUPERVISE = """
mkdir -p -- "$1" && cd -- "$1" || exit 126
limit=$2; shift 2
ulimit -c 0; ulimit -f 4194304
exec 3<&0
setsid env -i "PATH=$PATH" "HOME=$PWD" "TMPDIR=$PWD" LANG=C.UTF-8 "$@" 3<&- </dev/null &
program=$!
exec >/dev/null 2>&1
{ timeout "$limit" cat <&3; kill -s KILL -- "-$program"; } &
watcher=$!
wait "$program"
status=$?
kill "$watcher"
kill -s KILL -- "-$program"
exit "$status"
"""


@dataclass
class SshAgent(Agent):
    """Drives a device over ssh; ``folder`` is the device's, relative to the user's home unless absolute."""

    address: Address = field(default_factory=lambda: Address("", 22, "", Path()))
    folder: str = "lockstep"
    _root: str = field(init=False, default="")
    _made: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._link = SshLink(self.name, self.address)

    def _connect(self) -> None:
        self._link.open()
        try:
            self._root = self._make_folder()
        except BaseException:
            self._link.close()
            raise
        self._made = {"blobs", "bundles", "jobs"}

    def _make_folder(self) -> str:
        done = self._link.script(_MAKE_FOLDER, self.folder, seconds=CONTROL_SECONDS)
        if done.exit_code:
            raise DeviceUnavailable(
                f"{self.name}: cannot make its folder {self.folder}: {_words(done.stderr)}",
                hint="name a folder that its user may write to: `folder` of the link",
                device=self.name,
            )
        return done.stdout.decode(errors="surrogateescape").removesuffix("\n")

    def _disconnect(self) -> None:
        self._link.close()

    def _execute(self, argv: Sequence[str], folder: str, env: Mapping[str, str], deadline: float) -> Completed:
        settings = [f"{key}={value}" for key, value in env.items()]
        wrong = [key for key in env if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key)]
        if wrong:
            raise ConfigError(f"{wrong[0]!r} cannot be the name of an environment variable", hint="mend `env`")
        limit = str(int(deadline) + 10)
        done = self._link.supervised(_SUPERVISE, self._path(folder), limit, *settings, *argv, seconds=deadline)
        return Completed(done.exit_code, done.stdout, done.stderr, done.seconds, done.timed_out)

    def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
        parent = str(PurePosixPath(target).parent)
        if parent not in self._made:
            self._script('mkdir -p -- "$1"', f"make {parent}", self._path(parent))
            self._made.add(parent)
        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        stream = io.BytesIO(data) if isinstance(data, bytes) else data.open("rb")
        try:
            with stream, self._link.files(f"write {target}", size) as files:
                # putfo sends 32 KiB requests without waiting for each answer, and does not read the last answers:
                # only the size asked for at the end tells of a full disk.
                files.putfo(stream, self._path(target), confirm=True)
                files.chmod(self._path(target), 0o755 if executable else 0o644)
        except TransferError:
            self._remove(target)
            raise

    def _receive(self, source: str, limit: int) -> bytes:
        with self._link.files(f"read {source}", limit) as files:
            path = files.normalize(self._path(source))
            inside = path.startswith(f"{self._root}/")
            facts = files.stat(path) if inside else None
            if facts is None or not stat.S_ISREG(facts.st_mode or 0):
                raise TransferError(f"{self.name}: no file {source}", device=self.name)
            size = facts.st_size or 0
            if size > limit:
                raise TransferError(f"{self.name}: {source} is larger than {limit} bytes", device=self.name)
            with files.open(path, "rb") as stream:
                stream.prefetch(size, PREFETCH_REQUESTS)
                # In pieces: one large read would copy all that came before with each answer.
                sizes = [*[REQUEST_BYTES] * (size // REQUEST_BYTES), size % REQUEST_BYTES]
                return b"".join(stream.read(piece) for piece in sizes)

    def _hash(self, target: str) -> str:
        done = self._link.script('sha256sum <"$1"', self._path(target), seconds=HASH_SECONDS)
        found = re.search(rb"([0-9a-f]{64})\s+-\s*$", done.stdout)
        if done.exit_code or found is None:
            raise TransferError(
                f"{self.name}: no sha256 of {target}: {_words(done.stderr)}",
                hint="does the device have sha256sum, and is its storage sound?",
                device=self.name,
            )
        return found[1].decode()

    def _existing(self, targets: Sequence[str]) -> set[str]:
        asked = "".join(f"{target}\n" for target in targets if "\n" not in target)
        done = self._link.script(_EXISTING, self._root, seconds=CONTROL_SECONDS, stdin=asked.encode())
        return set(done.stdout.decode(errors="replace").splitlines()) & set(targets)

    def _rename(self, source: str, target: str) -> None:
        with self._link.files(f"rename {source}") as files:
            files.posix_rename(self._path(source), self._path(target))

    def _remove(self, target: str) -> None:
        self._made = {made for made in self._made if made != target and not made.startswith(f"{target}/")}
        self._script('rm -rf -- "$1"', f"remove {target}", self._path(target))

    def _free_bytes(self) -> int:
        answer = self._script('df -Pk -- "$1"', "ask for free room", self._root)
        found = re.search(r"\s(\d+)\s+(?:\d+%|-)\s[^\n]*\s*$", answer)
        if found is None:
            raise DeviceUnavailable(f"{self.name}: df does not tell the free room", device=self.name)
        return int(found[1]) * 1024

    def facts(self) -> dict[str, str]:
        """CPU, kernel, OS build and drivers, read on the device in one round trip."""
        return linux.facts_of(self._script(linux.SCRIPT, "read its facts"))

    def _script(self, text: str, doing: str, *arguments: str) -> str:
        done = self._link.script(text, *arguments, seconds=CONTROL_SECONDS)
        if done.exit_code:
            raise DeviceUnavailable(
                f"{self.name}: cannot {doing}: {_words(done.stderr)}",
                hint="is its folder writable and its storage sound? `lockstep doctor`",
                device=self.name,
            )
        return done.stdout.decode(errors="replace")

    def _path(self, relative: str) -> str:
        return f"{self._root}/{relative}"


def _words(stderr: bytes) -> str:
    return stderr.decode(errors="replace").strip()[-200:] or "no message"


def make(spec: AgentSpec) -> SshAgent:
    """The agent of an ``ssh`` link."""
    link = spec.link
    key = link.get("key")
    address = Address(
        str(link["host"]),
        int(link["port"]),
        str(link["user"]),
        Path(str(link["known_hosts"])).expanduser(),
        Path(str(key)).expanduser() if key else None,
    )
    return SshAgent(spec.name, spec.abi, address=address, folder=str(link["folder"]))
