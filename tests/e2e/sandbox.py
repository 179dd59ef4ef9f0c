"""What systemd shows a service of the file system: run inside a mount namespace of its own, ready for others to enter.

``python -m tests.e2e.sandbox UNIT.json`` mounts what the unit asks for, says ``ready``, and waits until its input ends.
Knows ``ProtectSystem=strict``, ``PrivateTmp=``, and folders that may be written.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

#: As in <linux/mount.h> and <fcntl.h>; the number of the call is the same on every architecture.
BIND, MOUNT_SETATTR, READ_ONLY, HERE = 4096, 442, 1, -100
#: What ``ProtectSystem=strict`` leaves as it is.
OF_THE_KERNEL = ("/dev", "/proc", "/sys")
PRIVATE = ("/tmp", "/var/tmp")


class Attributes(ctypes.Structure):
    """``struct mount_attr``."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


LIBRARY = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", options: str = "") -> None:
    """``mount(2)``: the file system ``kind``, or without one the folder ``source`` seen again at ``target``."""
    words = [word.encode() for word in (source, target, kind)]
    if LIBRARY.mount(*words, 0 if kind else BIND, options.encode()):
        raise OSError(ctypes.get_errno(), f"{source} cannot be mounted", target)


def beneath(path: str, folders: tuple[str, ...]) -> bool:
    """Whether ``path`` is one of the folders or lies in one."""
    return any(Path(path).is_relative_to(folder) for folder in folders)


def make_private(needed: list[str]) -> None:
    """Empty ``/tmp`` and ``/var/tmp``, in which only what the test itself needs is found again."""
    kept = {path: os.open(path, os.O_PATH) for path in needed if beneath(path, PRIVATE)}
    for folder in PRIVATE:
        mount("tmpfs", folder, "tmpfs", "mode=1777")
    for path, opened in kept.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{opened}", path)
        os.close(opened)


def make_read_only(mine: tuple[str, ...]) -> None:
    """Every mount but the kernel's and ``mine``."""
    attributes = Attributes(set=READ_ONLY)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), line.split()[4])
        if point not in mine and not beneath(point, OF_THE_KERNEL):
            # one that another hides cannot be reached, and need not be
            LIBRARY.syscall(MOUNT_SETATTR, HERE, point.encode(), 0, ctypes.byref(attributes), ctypes.sizeof(attributes))


def main(unit: dict[str, Any]) -> None:
    """``cache`` is where the gate has its own, which this host does not see."""
    mount(unit["empty"], unit["cache"])
    assert unit["ProtectSystem"] == "strict"
    private = unit["PrivateTmp"] == "yes"
    if private:
        make_private(unit["needed"])
    for path in unit["writable"]:
        mount(path, path)
    make_read_only((*unit["writable"], *(PRIVATE if private else ())))
    for path in unit["needed"]:
        assert not os.access(path, os.W_OK), path
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
