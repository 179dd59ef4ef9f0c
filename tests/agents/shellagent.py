"""A PosixAgent without a link: its scripts run here, in the shell and with the tools that a device might have."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from agents.base import Completed
from agents.posix import PosixAgent
from engine.contract.errors import TransferError
from engine.toolchain import group_tree

TAIL_BYTES = 64 * 1024


@dataclass
class ShellAgent(PosixAgent):
    """Its device is the folder ``where`` on this host; ``shell`` begins a command line, ``tools`` is all of PATH."""

    where: Path = field(default_factory=Path)
    shell: tuple[str, ...] = ("/bin/sh",)
    tools: str = "/usr/bin:/bin"

    def _connect(self) -> None:
        self._open_folder(str(self.where))

    def _disconnect(self) -> None:
        return None

    def _script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
        with tempfile.TemporaryFile() as source:
            source.write(stdin)
            source.seek(0)
            return self._run(text, arguments, seconds, source)

    def _supervised(self, text: str, *arguments: str, seconds: float) -> Completed:
        return self._run(text, arguments, seconds, None)

    def _run(self, text: str, arguments: tuple[str, ...], seconds: float, source: IO[bytes] | None) -> Completed:
        begun = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with subprocess.Popen(
                [*self.shell, "-c", text, "lockstep", *arguments],
                env={"PATH": self.tools},
                stdin=source or subprocess.PIPE,
                stdout=out,
                stderr=err,
            ) as process:
                timed_out = not self._ended(process, seconds, source is None)
                if timed_out and process.stdin is not None:
                    process.stdin.close()
                process.wait(10)
            out.seek(0)
            err.seek(0)
            printed, complaints = out.read()[-TAIL_BYTES:], err.read()[-TAIL_BYTES:]
        return Completed(process.returncode, printed, complaints, time.monotonic() - begun, timed_out)

    def _ended(self, process: subprocess.Popen[bytes], seconds: float, may_be_interrupted: bool) -> bool:
        until = time.monotonic() + seconds
        while process.poll() is None:
            if time.monotonic() > until or (may_be_interrupted and self.interrupted.is_set()):
                return False
            time.sleep(0.02)
        return True

    def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
        path = Path(self._path(target))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.read_bytes())
        path.chmod(0o755 if executable else 0o644)

    def _receive(self, source: str, limit: int) -> bytes:
        path = Path(self._path(source))
        if not path.resolve().is_relative_to(self._root) or not path.is_file():
            raise TransferError(f"{self.name}: no file {source}", device=self.name)
        if path.stat().st_size > limit:
            raise TransferError(f"{self.name}: {source} is larger than {limit} bytes", device=self.name)
        return path.read_bytes()


def shell_agent(kind: str, where: Path, scratch: Path) -> ShellAgent:
    """The agent of one user land: ``dash`` with coreutils, ``busybox``, or ``toybox`` with mksh as on Android."""
    if kind == "dash":
        return ShellAgent(kind, "x86-64", where=where)
    tree = group_tree("shells")
    program = tree / "bin" / kind
    links = scratch / f"{kind}-links"
    links.mkdir()
    for name in _applets(program):
        (links / name).symlink_to(program)
    shell = str(tree / "bin/mksh") if kind == "toybox" else str(links / "sh")
    (links / "sh").unlink(missing_ok=True)
    (links / "sh").symlink_to(shell if kind == "toybox" else program)
    return ShellAgent(kind, "x86-64", where=where, shell=(shell,), tools=str(links))


def _applets(program: Path) -> Iterator[str]:
    listing = [str(program), "--list"] if program.name == "busybox" else [str(program)]
    yield from subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
