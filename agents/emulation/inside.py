"""The device's first process: makes its namespaces and its root, then keeps its daemon running.

It is started by the supervisor, with one socket between them. What it does not know how to do (cutting the line,
keeping books) stays outside: it opens connections to the daemon for the supervisor and passes their descriptors.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agents.emulation import binfmt, kernel
from agents.emulation.boot import Boot

#: Between the end of a daemon and its next start.
RESPAWN_SECONDS = 0.2
_LONGEST_MESSAGE = 4096
#: What separates mount options and lower folders.
_ODD, _ESCAPED = re.compile(r"([\\,:])"), r"\\\1"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def main(descriptor: int) -> None:
    """Run one device over the supervisor's socket; ends when that closes."""
    line = socket.socket(fileno=descriptor)
    line.set_inheritable(False)
    os.umask(0o022)
    kernel.die_with_parent()
    boot = Boot.from_json(line.recv(64 * 1024).decode())
    step = "namespaces"

    def doing(what: str) -> None:
        nonlocal step
        step = what

    try:
        _new_namespaces(line, boot, doing)
        child = os.fork()
        if child:
            line.close()
            os.waitpid(child, 0)
            return
        kernel.die_with_parent()
        kernel.set_process_name("init")
        _make_root(boot, doing)
    except OSError as error:
        _tell(line, {"failed": step, "errno": error.errno, "detail": str(error)})
        return
    _tell(line, {"made": True})
    _Init(line, boot).run()


def _tell(line: socket.socket, message: dict[str, object], descriptors: tuple[int, ...] = ()) -> None:
    socket.send_fds(line, [json.dumps(message).encode()], descriptors)


def _new_namespaces(line: socket.socket, boot: Boot, doing: Callable[[str], None]) -> None:
    """User namespace first; the supervisor says who is who in it, then the others belong to it."""
    if boot.own_users:
        doing("user namespace")
        kernel.unshare(kernel.CLONE_NEWUSER)
    _tell(line, {"map": os.getpid() if boot.own_users else 0})
    if not line.recv(_LONGEST_MESSAGE):
        sys.exit(1)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    if not boot.rootless:
        os.setgroups([])
    doing("namespaces")
    kernel.unshare(kernel.ALL_BUT_USER)


def _make_root(boot: Boot, doing: Callable[[str], None]) -> None:
    root = Path(boot.root)
    doing("mount")
    kernel.mount("none", Path("/"), flags=kernel.MS_REC | kernel.MS_PRIVATE)
    if boot.lower:
        doing("overlay")
        places = {"lowerdir": boot.lower, "upperdir": boot.upper, "workdir": boot.work}
        options = ",".join(f"{name}={_ODD.sub(_ESCAPED, path)}" for name, path in places.items())
        kernel.mount("overlay", root, "overlay", data=options + (",userxattr" if boot.rootless else ""))
        for place in boot.partitions:
            kernel.bind(Path(boot.upper) / place[1:], root / place[1:])
    else:
        kernel.bind(root, root)
    doing("dev")
    _make_dev(root / "dev")
    doing("proc")
    kernel.mount("proc", root / "proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    doing("binfmt")
    if boot.interpreters:
        binfmt.register(root / str(binfmt.PLACE)[1:], boot)
    doing("mount")
    for place in boot.noexec:
        kernel.mount("tmpfs", root / place[1:], "tmpfs", kernel.MS_NOEXEC | kernel.MS_NOSUID, "mode=777")
    for place in boot.scratch:
        kernel.mount("tmpfs", root / place[1:], "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
    for place, megabytes in boot.sized.items():
        kernel.mount("tmpfs", root / place[1:], "tmpfs", kernel.MS_NOSUID, f"mode=777,size={megabytes}m")
    (root / "dev/.boot_id").write_text(f"{uuid.uuid4()}\n")
    kernel.bind(root / "dev/.boot_id", root / "proc/sys/kernel/random/boot_id")
    for place, shown in boot.bound.items():
        kernel.bind(root / shown[1:], root / place[1:])
    doing("network")
    kernel.bring_loopback_up()
    socket.sethostname(boot.hostname)
    doing("root")
    kernel.pivot_root(root)


def _make_dev(dev: Path) -> None:
    kernel.mount("tmpfs", dev, "tmpfs", kernel.MS_NOSUID, "mode=755")
    for name in _DEVICES:
        (dev / name).touch()
        kernel.bind(Path("/dev") / name, dev / name)
    for name, target in {"fd": "/proc/self/fd", "ptmx": "pts/ptmx"}.items():
        (dev / name).symlink_to(target)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (dev / name).symlink_to(f"/proc/self/fd/{number}")
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    kernel.mount("tmpfs", dev / "shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
    kernel.mount("devpts", dev / "pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, "newinstance,ptmxmode=0666")


class _Init:
    """pid 1: starts the daemon again when it ends, buries the dead, answers the supervisor."""

    def __init__(self, line: socket.socket, boot: Boot) -> None:
        self._line, self._boot = line, boot
        self._daemon = 0
        self._next_start: float | None = time.monotonic()
        self._woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker)

    def run(self) -> None:
        while True:
            self._bury()
            if self._next_start is not None and not self._daemon and time.monotonic() >= self._next_start:
                self._daemon = self._spawn()
            wait = 60.0 if self._daemon or self._next_start is None else RESPAWN_SECONDS
            ready, _, _ = select.select([self._line.fileno(), self._woken], [], [], wait)
            if self._woken in ready:
                os.read(self._woken, 512)
            if self._line.fileno() in ready:
                asked = self._line.recv(_LONGEST_MESSAGE)
                if not asked:
                    return  # the supervisor is gone: so is pid 1, and with it everything here
                self._answer(json.loads(asked)["do"])

    def _answer(self, asked: str) -> None:
        if asked == "connect":
            self._connect()
            return
        self._next_start = None if asked == "kill" else time.monotonic()
        if self._daemon and asked in ("kill", "restart"):
            with suppress(ProcessLookupError):
                os.killpg(self._daemon, signal.SIGKILL)
        _tell(self._line, {"done": asked})

    def _connect(self) -> None:
        try:
            with socket.socket() as made:  # create_connection would look for name tables outside the new root
                made.connect(("127.0.0.1", self._boot.port))
                _tell(self._line, {"connected": True}, (made.fileno(),))
        except OSError as error:
            _tell(self._line, {"connected": False, "detail": str(error)})

    def _bury(self) -> None:
        with suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                if pid == self._daemon:
                    self._daemon = 0
                    if self._next_start is not None:
                        self._next_start = time.monotonic() + RESPAWN_SECONDS

    def _spawn(self) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._become_user()
            os.execve(self._boot.command[0], self._boot.command, self._boot.environment)  # noqa: S606
        except OSError as error:
            print(f"cannot start {self._boot.command[0]}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(127)

    def _become_user(self) -> None:
        """Without root one user is all there is: a second user namespace gives the same user another number."""
        user = self._boot.user
        if not user:
            return
        if self._boot.rootless:
            kernel.unshare(kernel.CLONE_NEWUSER)
            Path("/proc/self/uid_map").write_text(f"{user} 0 1")
            Path("/proc/self/gid_map").write_text(f"{user} 0 1")
        else:
            os.setgroups([user])
            os.setresgid(user, user, user)
        os.setresuid(user, user, user)


if __name__ == "__main__":
    main(int(sys.argv[1]))
