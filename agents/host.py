"""Hooks for devices that live on this host: a folder, and processes with a deadline."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from agents import hoststock
from agents.base import INTERRUPT_SECONDS, Agent, Completed
from agents.deployment import Order, Parcel, Stock
from agents.localshell import local_script
from agents.probes.fingerprint import Fingerprint
from agents.probes.peak import RECORD
from agents.readings import Place, take
from agents.room import RESERVE_BYTES
from agents.watching import MemoryWatch
from engine.contract.errors import DeviceUnavailable, StorageFull, TransferError

#: Largest file a runner may write; a runaway log must not fill the host.
MAX_FILE_BYTES = 2 * 1024**3
#: How much of a program's output is kept.
TAIL_BYTES = 64 * 1024
#: A program that was just written is busy while a process that another thread started at that moment still holds its
#: file open: until its own exec, so for milliseconds. The kernel refuses to start it so long (ETXTBSY).
BUSY_SECONDS = 5.0
_NOT_STARTED, _BUSY = b"setpriv: failed to execute ", b": Text file busy"


@dataclass
class HostAgent(Agent):
    """A device whose folder and processes are on this host; ``root`` is the device's folder."""

    root: Path = field(default_factory=Path)
    prefix: tuple[str, ...] = ()

    def _connect(self) -> None:
        with self._translated("make its folder"):
            for name in ("blobs", "bundles", "jobs"):
                (self.root / name).mkdir(parents=True, exist_ok=True)

    def _disconnect(self) -> None:
        return None

    def _execute(self, argv: Sequence[str], folder: str, env: Mapping[str, str], deadline: float) -> Completed:
        until = time.monotonic() + BUSY_SECONDS
        while True:
            done = self._execute_once(argv, folder, env, deadline)
            if not done.stderr.startswith(_NOT_STARTED) or _BUSY not in done.stderr or time.monotonic() >= until:
                return done
            time.sleep(0.02)

    def _execute_once(self, argv: Sequence[str], folder: str, env: Mapping[str, str], deadline: float) -> Completed:
        cwd = self.root / folder
        with self._translated("start a program"):
            cwd.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                return self._wait(self._spawn(argv, cwd, env, out, err), deadline, out, err)

    def _spawn(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[bytes], err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        # prlimit and setpriv (both in Debian's essential util-linux) bound what a runner can write and
        # end it with the process that drives it, even when that one is killed outright.
        guard = ["prlimit", f"--fsize={MAX_FILE_BYTES}", "--core=0", "setpriv", "--pdeathsig", "KILL"]
        clean = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(cwd), "TMPDIR": str(cwd), "LANG": "C.UTF-8"}
        return subprocess.Popen(
            [*guard, *self.prefix, *argv],
            cwd=cwd,
            env={**clean, **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

    def _wait(self, process: subprocess.Popen[bytes], deadline: float, out: IO[bytes], err: IO[bytes]) -> Completed:
        begun = time.monotonic()
        timed_out = False
        memory = MemoryWatch(process.pid, self.root / RECORD)
        try:
            while not timed_out and not self.interrupted.is_set():
                left = begun + deadline - time.monotonic()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=memory.wait_for(max(0.0, min(left, INTERRUPT_SECONDS))))
                    break
                memory.sample_if_due()
                timed_out = begun + deadline <= time.monotonic()
        finally:
            _end_group(process)
        memory.write()
        return Completed(process.returncode, _tail(out), _tail(err), time.monotonic() - begun, timed_out)

    def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
        path = self.root / target
        with self._translated(f"write {target}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(data, bytes):
                path.write_bytes(data)
            else:
                shutil.copyfile(data, path)
            path.chmod(0o755 if executable else 0o644)

    def _receive(self, source: str, limit: int) -> bytes:
        path = self.root / source
        try:
            if not path.resolve().is_relative_to(self.root.resolve()) or not path.is_file():
                raise TransferError(f"{self.name}: no file {source}", device=self.name)
            if path.stat().st_size > limit:
                raise TransferError(f"{self.name}: {source} is larger than {limit} bytes", device=self.name)
            return path.read_bytes()
        except OSError as error:
            raise TransferError(f"{self.name}: cannot read {source}: {error}", device=self.name) from error

    def _stock(self, order: Order) -> Stock:
        with self._translated("tell what it has"):
            return hoststock.stock(self.root, order, self.token, self.cap_bytes, RESERVE_BYTES)

    def _make_room(self) -> None:
        with self._translated("make room"):
            hoststock.make_room(self.root, self.token, self.cap_bytes, RESERVE_BYTES)

    def _place(self, parcel: Parcel, tar: bool, guard: Callable[[], None]) -> None:
        del tar  # nothing is packed on the way from one folder of this host to another
        staging = self._job_folder("deploy")
        try:
            for name, blob in parcel.files.items():
                guard()
                self._send(blob.path, f"{staging}/{name}", blob.executable)
            with self._translated("keep what it was sent"):
                hoststock.publish(self.name, self.root, self.root / staging, parcel)
        finally:
            self._remove(staging)

    def _remove(self, target: str) -> None:
        path = self.root / target
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def _free_bytes(self) -> int:
        with self._translated("ask for free room"):
            return shutil.disk_usage(self.root).free

    def _script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
        return local_script(text, *arguments, seconds=seconds, stdin=stdin, name=self.name)

    @property
    def home(self) -> str:
        """The device's folder on this host."""
        return str(self.root.resolve())

    def facts(self) -> dict[str, str]:
        """Host facts; an emulated device adds its own."""
        return host_facts()

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            words = f"{self.name}: cannot {doing}: {error.strerror or error}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(words, hint="free room, or set LOCKSTEP_STATE to a larger disk") from error
            raise DeviceUnavailable(words, hint="`lockstep doctor` checks the machine", device=self.name) from error


@functools.cache
def host_facts() -> dict[str, str]:
    """Fingerprint facts of this host: they do not change while a worker lives."""
    found = take(local_script, ["fingerprint"], Place("/"))["fingerprint"]
    if not isinstance(found, Fingerprint):
        raise DeviceUnavailable(f"this host tells nothing of itself: {found}", hint="does /bin/sh run there?")
    return found.facts()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the program and every child it left in its session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(stream: IO[bytes]) -> bytes:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - TAIL_BYTES))
    return stream.read()
