"""System calls that Python 3.11 has no functions for: namespaces and mounts. Errors are OSError."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
#: Everything a device has to itself.
ALL_BUT_USER = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


#: CHOWN, DAC_OVERRIDE, SETGID, SETUID, SYS_ADMIN: root of a container may lack them.
_WANTED_CAPABILITIES = (0, 1, 6, 7, 21)
#: Users of a device have numbers below this, nobody among them.
_USERS = 65535


def privileged() -> bool:
    """True for a root that may do what root does: its devices can have more users than one."""
    status = Path("/proc/self/status").read_text().splitlines()
    effective = int(next(line for line in status if line.startswith("CapEff:")).split()[1], 16)
    able = os.geteuid() == 0 and all(effective >> one & 1 for one in _WANTED_CAPABILITIES)
    return able and all(_numbers(name) >= _USERS for name in ("uid_map", "gid_map"))


def same_numbers(name: str) -> str:
    """A ``uid_map`` or ``gid_map`` in which everybody this process knows keeps the number."""
    return f"0 0 {_numbers(name)}"


def _numbers(name: str) -> int:
    """How many numbers from 0 on are known here (all of them, or what a container was given)."""
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self", name).read_text().splitlines()]
    return next((count for first, _, count in ranges if first == 0), 0)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """Leave the namespaces named by ``flags`` for new ones; with CLONE_NEWPID the next child is pid 1."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2); ``data`` are the file system's own options."""
    arguments = [text.encode() or None for text in (source, str(target), kind)]
    _check(_libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def bind(source: Path, target: Path) -> None:
    """Show one file or folder at a second place."""
    mount(str(source), target, flags=MS_BIND)


def pivot_root(root: Path) -> None:
    """Make a mount point the root of this mount namespace, and let go of the old root."""
    os.chdir(root)
    _check(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount the old root")
    os.chdir("/")


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """What ps shows (15 characters)."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0), "prctl")


def bring_loopback_up() -> None:
    """A new network namespace has its loopback interface down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
