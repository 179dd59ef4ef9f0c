"""A real sshd on loopback for one test: its own keys and configuration, run as the current user, gone with the test."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agents.sshlogin import Address
from engine.toolchain import environment_of, group_tree

CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
{extra}
"""


@dataclass
class Sshd:
    """One daemon; ``folder`` holds its keys, its log and the home of its user, ``prefix`` begins its command."""

    folder: Path
    port: int = 0
    prefix: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> Address:
        """How an agent reaches it, its key known."""
        user = pwd.getpwuid(os.getuid()).pw_name
        return Address("127.0.0.1", self.port, user, self.folder / "known_hosts", self.folder / "user_key")

    def start(self, extra: str = "Subsystem sftp internal-sftp") -> None:
        """Listen; the port stays the same when started again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("host_key", "user_key"):
            if not (self.folder / name).exists():
                self._make_key(name)
        self.port = self.port or _free_port()
        (self.folder / "sshd_config").write_text(CONFIG.format(port=self.port, folder=self.folder, extra=extra))
        tree = group_tree("ssh")
        command = [tree / "usr/sbin/sshd", "-D", "-e", "-r", "-f", self.folder / "sshd_config"]
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix, "setpriv", "--pdeathsig", "KILL", *command],
                env=self._environment(tree),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_it_listens()

    def stop(self) -> None:
        """Kill the daemon and everything that it started."""
        if self._process is not None:
            for pid in [self._process.pid, *_descendants(self._process.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_daemons(self) -> None:
        """Kill the daemon and its connections as a crash would, but not the programs that run in them."""
        assert self._process is not None
        for pid in [self._process.pid, *_descendants(self._process.pid)]:
            if _program(pid) == "sshd":
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """Stop the daemon and its connections: the line is open and nobody answers."""
        assert self._process is not None
        for pid in [self._process.pid, *_descendants(self._process.pid)]:
            if _program(pid) == "sshd":
                os.kill(pid, signal.SIGSTOP)

    def outside(self, path: Path) -> Path:
        """How this process reaches what the daemon, which may have mounts of its own, sees at ``path``."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root") / path.relative_to("/")

    def trust(self, known_hosts: Path | None = None) -> None:
        """Add its present host key to a known_hosts file (its own by default)."""
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        with (known_hosts or self.folder / "known_hosts").open("a") as file:
            file.write(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def change_host_key(self) -> None:
        """What setting a board up anew does."""
        self.stop()
        (self.folder / "host_key").unlink()
        (self.folder / "host_key.pub").unlink()
        self.start()

    def _make_key(self, name: str) -> None:
        tree = group_tree("ssh")
        command = [tree / "usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name]
        subprocess.run(command, env=environment_of(tree), check=True)

    def _environment(self, tree: Path) -> dict[str, str]:
        environment = environment_of(tree)
        me = pwd.getpwuid(os.getuid())
        users = f"{me.pw_name}:x:{me.pw_uid}:{me.pw_gid}::{self.folder}:/bin/sh\n"
        if me.pw_uid == 0:
            # As root, sshd wants a user and an empty folder for its unprivileged half.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
            users += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        (self.folder / "passwd").write_text(users)
        wrapper = tree / "usr/lib/x86_64-linux-gnu/libnss_wrapper.so"
        named = {"NSS_WRAPPER_PASSWD": str(self.folder / "passwd"), "NSS_WRAPPER_GROUP": "/etc/group"}
        return {**environment, **named, "LD_PRELOAD": str(wrapper)}

    def _wait_until_it_listens(self) -> None:
        assert self._process is not None
        until = time.monotonic() + 20
        while True:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port), 5):
                return
            log = (self.folder / "sshd.log").read_text(errors="replace")
            assert self._process.poll() is None, f"sshd ended: {log}"
            assert time.monotonic() < until, f"sshd does not listen: {log}"
            os.sched_yield()


@contextmanager
def running_sshd(folder: Path) -> Iterator[Sshd]:
    """A daemon whose key is known, ended also when the test fails."""
    daemon = Sshd(folder)
    try:
        daemon.start()
        daemon.trust()
        yield daemon
    finally:
        daemon.stop()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""
