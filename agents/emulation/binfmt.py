"""Programs of a foreign CPU: binfmt_misc of a device's own, or entries in the machine's that are taken out again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agents.emulation import kernel
from agents.emulation.boot import Boot

#: Where binfmt_misc belongs.
PLACE = Path("/proc/sys/fs/binfmt_misc")
#: Magic and mask of an ELF program, as qemu's own script registers them.
_ELF = {
    "aarch64": (
        r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
        r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
    ),
}


def entries(boot: Boot) -> Mapping[str, str]:
    """ELF machine by the name of its entry; in the machine's own binfmt_misc the names say whose they are."""
    prefix = "" if boot.own_users else f"lockstep-{boot.hostname}-"
    return {f"{prefix}{machine}": machine for machine in boot.interpreters}


def register(folder: Path, boot: Boot) -> None:
    """Mount binfmt_misc at ``folder`` and register the device's emulators.

    F: the kernel opens the emulator now, so that nothing has to lie inside the device's root.
    """
    kernel.mount("binfmt_misc", folder, "binfmt_misc")
    for name, machine in entries(boot).items():
        _take_out(folder / name)
        magic, mask = _ELF[machine]
        (folder / "register").write_text(f":{name}:M::{magic}:{mask}:{boot.interpreters[machine]}:POF")


def forget(boot: Boot) -> None:
    """Take the entries of a device out of the machine's binfmt_misc; those of its own went with the device."""
    if not boot.own_users and boot.interpreters:
        subprocess.run([sys.executable, "-m", "agents.emulation.binfmt", *entries(boot)], check=False)


def _forget(names: Sequence[str]) -> None:
    """In a mount namespace of its own: the machine may not have binfmt_misc mounted, and keeps it so."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", Path("/"), flags=kernel.MS_REC | kernel.MS_PRIVATE)
    if not (PLACE / "register").exists():
        kernel.mount("binfmt_misc", PLACE, "binfmt_misc")
    for name in names:
        _take_out(PLACE / name)


def _take_out(entry: Path) -> None:
    if entry.exists():
        entry.write_text("-1")


if __name__ == "__main__":
    with suppress(OSError):  # where it cannot be mounted, there is no entry
        _forget(sys.argv[1:])
