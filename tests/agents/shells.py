"""The shells that devices have, for one test: dash, busybox's, and mksh with toybox as on Android, each with its own
tools and no others on its PATH."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.base import Completed
from agents.localshell import local_script
from engine.toolchain import group_tree

NAMES = ("dash", "busybox", "mksh+toybox")
_TOOLS = ("cat", "cut", "date", "df", "echo", "grep", "head", "id", "ls", "mkdir", "mv", "printf", "rm", "sed", "sleep",
          "sort", "sync", "tail", "timeout", "uname", "wc")  # fmt: skip


@dataclass(frozen=True)
class Shell:
    """One shell; ``script`` runs a script in it as an agent would on a device."""

    name: str
    command: tuple[str, ...]
    tools: Path

    def script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
        shell = ("env", "-i", f"PATH={self.tools}", *self.command)
        return local_script(text, *arguments, seconds=seconds, stdin=stdin, shell=shell)

    def add_command(self, name: str, text: str) -> None:
        """A command of the device, as a script of its own shell."""
        path = self.tools / name
        path.write_text(f"#!{' '.join(self.command)}\n{text}")
        path.chmod(0o755)


def shell_named(name: str, folder: Path) -> Shell:
    """The shell ``name`` with its tools linked into ``folder``."""
    folder.mkdir()
    if name == "dash":
        for tool in _TOOLS:
            if found := shutil.which(tool):
                (folder / tool).symlink_to(found)
        return Shell(name, ("/bin/sh",), folder)
    tree = group_tree("shells") / "usr" / "bin"
    multi = tree / ("busybox" if name == "busybox" else "toybox")
    for tool in _TOOLS:
        (folder / tool).symlink_to(multi)
    if name == "busybox":
        (folder / "sh").symlink_to(multi)
        return Shell(name, (str(folder / "sh"),), folder)
    return Shell(name, (str(tree / "mksh"),), folder)


def tree_of(root: Path, files: Mapping[str, str]) -> Path:
    """A folder tree with these files, shaped like sysfs or proc; returns its root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
