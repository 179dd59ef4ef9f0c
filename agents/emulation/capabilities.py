"""What the kernel must allow for emulated devices, and how to get it where it does not."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from engine.contract.errors import MissingToolError

#: Kernels before this have one binfmt_misc for the whole machine, which only root may write to.
PRIVATE_BINFMT = (6, 7)
_SETTINGS = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    ("user/max_net_namespaces", "0", "sysctl user.max_net_namespaces=10000"),
)
_IN_A_CONTAINER = (
    "in a container: start it with --privileged (or with seccomp and AppArmor unconfined); outside of any chroot"
)
_WORDS = {
    "user namespace": "user namespaces are not allowed here",
    "namespaces": "new mount, network and process namespaces are not allowed here",
    "mount": "mounting inside a user namespace is not allowed here",
    "dev": "mounting inside a user namespace is not allowed here",
    "overlay": "overlayfs is not allowed inside a user namespace here",
    "proc": "a new /proc cannot be mounted: parts of the machine's own are hidden, as containers do",
    "binfmt": "a binfmt_misc of its own (for programs of a foreign CPU) is not allowed inside a user namespace here",
    "network": "the loopback interface of a new network namespace cannot be brought up",
    "root": "the root of the new mount namespace cannot be changed",
}


def explain(
    device: str, report: Mapping[str, object], log: str, proc_sys: Path = Path("/proc/sys")
) -> MissingToolError:
    """The error for a device that did not start: what is missing, and the next step.

    ``report`` is what its first process said, ``log`` the end of what its daemon said.
    """
    step = str(report.get("failed", ""))
    detail = str(report.get("detail", ""))
    if (step, report.get("errno")) == ("mount", errno.EINVAL):
        return MissingToolError(
            f"{device}: the root folder here is no mount point, as in a plain chroot ({detail})",
            hint="before entering it: mount --bind FOLDER FOLDER",
            device=device,
        )
    if step not in _WORDS:
        tail = "\n    ".join(log.strip().splitlines()[-6:])
        return MissingToolError(
            f"{device}: the emulated device did not start: {detail or 'its supervisor ended'}\n    {tail}",
            hint="`lockstep doctor`, then try again",
            device=device,
        )
    return MissingToolError(
        f"{device}: {_WORDS[step]} ({detail})", hint=_next_step(step, proc_sys), device=device, step=step
    )


def _next_step(step: str, proc_sys: Path) -> str:
    root = os.geteuid() == 0
    if step == "binfmt" and kernel_version() < PRIVATE_BINFMT:
        return (
            f"this kernel is {platform.release()}, it takes 6.7 or newer; "
            "or run as root; or leave the arm64 devices out: --adb-arm64 0 --ssh-arm64 0"
        )
    for name, forbids, command in _SETTINGS:
        if _setting(proc_sys / name) == forbids:
            return f"as root: {command}" + ("" if root else "; or run `lockstep emulate` as root")
    return _IN_A_CONTAINER if root else f"run `lockstep emulate` as root, or {_IN_A_CONTAINER}"


def kernel_version() -> tuple[int, int]:
    """Major and minor number of the running kernel."""
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()) or 0)


def _setting(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
