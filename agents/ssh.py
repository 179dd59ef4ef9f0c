"""A Linux device behind a real ssh daemon.

``agents/sshlink.py`` is the connection, ``agents/sshlogin.py`` how it begins; only these two import paramiko.

What the device must have: a POSIX shell with coreutils, findutils and sed, busybox or toybox (setsid, env, timeout,
sha256sum, find, sort, sed, df, du, cp, mv, rm, touch; tar if files are to travel fast), and sftp. Nothing is installed.

::

    link: {kind: ssh, host: pi.lab, user: pi, key: ~/.ssh/lab, folder: lockstep, jump: gate@lab.example:2222}
"""

from __future__ import annotations

import io
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.base import AgentSpec, Completed
from agents.posix import PosixAgent
from agents.sshlink import SshLink
from agents.sshlogin import Address
from engine.contract.errors import TransferError

#: What every sftp server answers in one piece.
REQUEST_BYTES = 32 * 1024
#: What paramiko keeps on its way in one download; with its default a download is ten times slower.
PREFETCH_REQUESTS = 64
#: Where a device's folder may be when none is named; homes are sometimes mounted without execution.
PLACES = ("lockstep", "/var/tmp/lockstep-{user}", "/tmp/lockstep-{user}")  # noqa: S108 - must belong to the user


@dataclass
class SshAgent(PosixAgent):
    """Drives a device over ssh.

    ``folder`` is the device's, relative to the user's home unless absolute; empty: the first of some usual places
    where programs may run.
    """

    address: Address = field(default_factory=lambda: Address("", 22, "", Path()))
    folder: str = ""

    def __post_init__(self) -> None:
        self._link = SshLink(self.name, self.address)

    def _connect(self) -> None:
        self._link.open()
        try:
            if self.folder:
                self._open_folder(self.folder)
            else:
                user = self.address.user
                self._open_folder(own=[place.format(user=user) for place in PLACES])
        except BaseException:
            self._link.close()
            raise

    def _disconnect(self) -> None:
        self._link.close()

    def _script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
        return self._link.script(text, *arguments, seconds=seconds, stdin=(stdin,) if stdin else ())

    def _pipe(self, text: str, *arguments: str, source: Iterator[bytes], seconds: float) -> Completed:
        return self._link.script(text, *arguments, seconds=seconds, stdin=source)

    def _supervised(self, text: str, *arguments: str, seconds: float) -> Completed:
        return self._link.supervised(text, *arguments, seconds=seconds, stop=self.interrupted)

    def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
        self._make_parent(target)
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


def make(spec: AgentSpec) -> SshAgent:
    """The agent of an ``ssh`` link."""
    link = spec.link
    key = Path(str(link["key"])).expanduser() if link.get("key") else None
    known_hosts = Path(str(link["known_hosts"])).expanduser()
    address = Address(str(link["host"]), int(link["port"]), str(link["user"]), known_hosts, key)
    if link.get("jump"):
        address = replace(address, jump=_jump(str(link["jump"]), address))
    return SshAgent(spec.name, spec.abi, address=address, folder=str(link.get("folder") or ""))


def _jump(text: str, address: Address) -> Address:
    """``[USER@]HOST[:PORT]``: user, key and known_hosts are the link's unless given."""
    user, _, place = text.rpartition("@")
    host, _, port = place.partition(":")
    return Address(host, int(port or 22), user or address.user, address.known_hosts, address.key)
