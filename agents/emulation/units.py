"""Emulated devices as a person or a test holds them: start, find, cut, restart, end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from agents.emulation import binfmt, kernel, roots
from agents.emulation.boot import Boot
from agents.emulation.capabilities import explain
from agents.emulation.processes import end, start_time
from agents.emulation.spec import Spec
from engine.contract.errors import DeviceUnavailable, UsageError
from engine.debian import Progress, silent
from engine.places import state_root

_ANSWER_SECONDS = 90.0
_DOWN_SECONDS = 15.0
_LONGEST_MESSAGE = 4096
#: Steps that a root without a user namespace may still be able to do: kernels before 6.7 have one binfmt_misc for all.
_OF_USER_NAMESPACES = ("user namespace", "namespaces", "mount", "dev", "proc", "binfmt")


def home() -> Path:
    """Where the emulated devices of this user live."""
    return state_root() / "emulation"


@dataclass(frozen=True)
class Status:
    """``init`` is the host's number of the device's first process, 0 when it is dead; ``line`` open, cut or silent."""

    port: int
    init: int
    line: str


@dataclass(frozen=True)
class Unit:
    """One emulated device: its folder, its supervisor (number and start time), its loopback port."""

    folder: Path
    spec: Spec
    pid: int
    started: int
    port: int

    @property
    def name(self) -> str:
        """As in devices.yaml."""
        return self.spec.name

    @property
    def serial(self) -> str:
        """What `adb connect` takes."""
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """True while the supervisor that was started for it lives."""
        return start_time(self.pid) == self.started

    @property
    def alive(self) -> bool:
        """True while the supervisor answers and the device's first process lives."""
        if not self.running:
            return False
        try:
            return bool(self.status().init)
        except DeviceUnavailable:
            return False

    @property
    def root(self) -> Path:
        """The device's root as seen from the host, while it runs (a reboot makes another)."""
        return Path(f"/proc/{self.status().init}/root")

    def status(self) -> Status:
        """Ask the supervisor. DeviceUnavailable when it is gone."""
        told = self._ask("status")
        return Status(int(told["port"]), int(told["init"]), str(told["line"]))

    def cut(self, silent: bool = False) -> None:
        """Cut the line: connections end, new ones are refused; ``silent``: they stay, and nothing comes through."""
        self._ask("cut", silent=silent)

    def mend(self) -> None:
        """Undo ``cut``."""
        self._ask("mend")

    def restart(self) -> None:
        """Kill the daemon; the device starts it again."""
        self._ask("restart")

    def kill(self) -> None:
        """Kill the daemon, and it stays away until ``restart``."""
        self._ask("kill")

    def reboot(self) -> None:
        """End every process of the device and start it anew; its files stay."""
        self._ask("reboot")

    def down(self) -> None:
        """End the device and remove its files. Does nothing to a process that only has the number of the old one."""
        if self.running:
            with suppress(DeviceUnavailable):
                self._ask("down", seconds=_DOWN_SECONDS)
            end(self.pid, self.started)
        with suppress(OSError, ValueError, TypeError):
            binfmt.forget(Boot.from_json((self.folder / "boot.json").read_text()))
        roots.remove_tree(self.folder)

    def _ask(self, do: str, seconds: float = _ANSWER_SECONDS, **details: object) -> dict[str, int | str]:
        answer: dict[str, int | str] = {}
        try:
            with _connected(self.folder) as line:
                line.settimeout(seconds)
                line.send(json.dumps({"do": do, **details}).encode())
                answer = json.loads(line.recv(_LONGEST_MESSAGE) or b"{}")
        except (OSError, ValueError) as error:
            raise self._gone() from error
        if "failed" in answer:
            raise DeviceUnavailable(f"{self.name}: did not come back: {answer}", device=self.name)
        if not answer and do != "down":
            raise self._gone()
        return answer

    def _gone(self) -> DeviceUnavailable:
        return DeviceUnavailable(
            f"{self.name}: the emulated device is not running",
            hint="`lockstep emulate list` shows what runs, `lockstep emulate up` starts it",
            device=self.name,
        )


def start(spec: Spec, folder: Path, *, port: int = 0, orphan: str = "lives", progress: Progress = silent) -> Unit:
    """Make a device in ``folder`` (another device's remains there are removed) and wait until its daemon answers.

    ``orphan`` says whether it ``lives`` on when this process ends, or ``dies`` with it (even with the thread that
    called). Raises MissingToolError that names what the kernel does not allow, or the package that cannot be had.
    """
    if folder.exists() and not (folder / "boot.json").exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds something else than an emulated device", hint="name another folder")
    tree = roots.tree_of(spec, progress)
    overlay, own_users = True, True
    while True:
        boot = _lay_out(spec, folder, tree, overlay=overlay, own_users=own_users)
        unit, report = _launch(spec, folder, port, orphan)
        if unit is not None:
            return unit
        binfmt.forget(boot)
        if overlay and report.get("failed") == "overlay":
            progress(f"{spec.name}: no overlayfs here: copying its files")
            overlay = False
        elif own_users and kernel.privileged() and report.get("failed") in _OF_USER_NAMESPACES:
            progress(f"{spec.name}: no user namespace of its own here: this machine's users and binfmt_misc serve it")
            own_users = False
        else:
            log = (folder / "log").read_text(errors="replace")[-_LONGEST_MESSAGE:]
            roots.remove_tree(folder)
            raise explain(spec.name, report, log)


def _lay_out(spec: Spec, folder: Path, tree: Path, *, overlay: bool, own_users: bool) -> Boot:
    roots.remove_tree(folder)
    folder.mkdir(parents=True, mode=0o700)
    boot = roots.make_root(folder, tree, spec, overlay=overlay, own_users=own_users)
    (folder / "boot.json").write_text(boot.to_json())
    return boot


def _launch(spec: Spec, folder: Path, port: int, orphan: str) -> tuple[Unit | None, dict[str, object]]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agents.emulation.supervisor", str(folder), str(port), orphan],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None  # noqa: S101 - asked for above
    try:
        with process.stdout:
            said: dict[str, object] = json.loads(process.stdout.readline() or b"{}")
    except BaseException:  # interrupted: nobody would know of it
        process.kill()
        process.wait()
        raise
    if "port" not in said:
        process.wait()
        return None, said
    unit = Unit(folder, spec, process.pid, start_time(process.pid), int(str(said["port"])))
    process.returncode = 0  # from here on it is known by its number and start time, not by this object
    facts = {"spec": asdict(spec), "pid": unit.pid, "started": unit.started, "port": unit.port}
    (folder / "unit.json").write_text(json.dumps(facts))
    return unit, said


@contextmanager
def _connected(folder: Path) -> Iterator[socket.socket]:
    """A connection to the supervisor, however long the folder's path is."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(f"/proc/self/fd/{handle}/control")
            yield line
    finally:
        os.close(handle)
